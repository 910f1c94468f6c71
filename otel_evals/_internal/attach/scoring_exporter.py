"""An exporter in front of another one, which holds judged spans and adds their scores as attributes.

A separate thread exports held spans: a slow exporter delays neither the application, nor the batch
processor, nor the scoring thread.
"""

from __future__ import annotations

import contextvars
import copy
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import format_span_id, format_trace_id

from otel_evals import semconv
from otel_evals._internal.attach.hold import Hold, Key, PendingScores
from otel_evals._internal.capture.items import size_of_sdk_span
from otel_evals._internal.trust.keys import is_proof
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.threads import Wakeup

_logger = logging.getLogger(__name__)
_MAX_BATCH = 512
_GATHER_SECONDS = 0.01
_STOP_SECONDS = 30.0
_RELEASE_SECONDS = 0.5
"""Time for held spans to leave when scoring ends; a slow exporter continues afterwards."""
_LOOK_SECONDS = 0.1
"""Seconds between two looks if the releasing thread still runs, while one waits for it."""
_OURS = "otel_evals."


class ScoringSpanExporter(SpanExporter):
    """Exports spans through another exporter, judged ones with their scores.

    It holds a judged span for at most `hold` seconds after its end, and at most `limit` spans of `max_bytes`.
    The releasing thread runs in `context`, which has the pipeline's privacy settings.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        scores: PendingScores,
        *,
        hold: float = 10.0,
        limit: int = 2048,
        max_bytes: int = 2**28,
        context: contextvars.Context | None = None,
    ) -> None:
        self._exporter = exporter
        self._scores = scores
        self._context = context or contextvars.Context()
        self._hold = Hold[ReadableSpan](
            scores,
            limit=limit,
            seconds=hold,
            max_bytes=max_bytes,
            measure=size_of_sdk_span,
            changed=lambda: None,
        )
        self._closing = False
        self._renew()

    def _renew(self) -> None:
        self._work = Wakeup()
        self._hold.changed = self._work.set
        self._waiting: deque[tuple[Wakeup, bool]] = deque()
        """Callers that wait for released spans, and whether all spans are to be released for them."""
        self._exporting = threading.RLock()  # a signal handler may export while its thread does
        self._thread: threading.Thread | None = None

    def after_fork(self) -> None:
        """Drop the held spans in a forked child: the parent process will export them."""
        self._hold.clear()
        self._renew()

    @property
    def held(self) -> int:
        """Number of spans held now."""
        return len(self._hold)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        passing = [each for span in spans if (each := self._pass_or_hold(span)) is not None]
        return self._send(passing) if passing else SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Release every held span with the scores there are; returns whether all left in time."""
        deadline = time.monotonic() + timeout_millis / 1000
        if not self.wait_until_released(deadline, everything=True):
            return False
        return self._exporter.force_flush(max(0, int(1000 * (deadline - time.monotonic()))))

    def wait_until_released(self, deadline: float, *, everything: bool = False) -> bool:
        """Wait until a `time.monotonic` deadline for spans that may pass; returns whether they left.

        The releasing thread exports them: an exporter that blocks must not block the caller.
        """
        thread, left = self._thread, Wakeup()
        if thread is None:
            return True
        # Before the wake-up: this round of the thread includes it.
        self._waiting.append((left, everything))
        self._work.set()
        while not left.wait(min(_LOOK_SECONDS, deadline - time.monotonic())):
            if not thread.is_alive():
                return True
            if time.monotonic() >= deadline:
                return False
        return True

    def stop(self, seconds: float = _STOP_SECONDS) -> bool:
        """Release every held span and hold no more; returns whether all left in time."""
        self._closing = True
        return self.wait_until_released(time.monotonic() + seconds, everything=True)

    def shutdown(self) -> None:
        self.stop()
        self._exporter.shutdown()

    def _pass_or_hold(self, span: ReadableSpan) -> ReadableSpan | None:
        context: Any = span.context
        key, end_time = (context.trace_id, context.span_id), span.end_time or 0
        attributes = self._scores.take(key, end_time)
        if attributes is None and self._holds(key, span, end_time):
            return None
        if attributes is None:
            # It cannot be held, and passes with the scores so far.
            attributes = self._scores.take(key, end_time, anyway=True)
        return _with(span, attributes or {})

    def _holds(self, key: Key, span: ReadableSpan, end_time: int) -> bool:
        if self._closing or not self._watched() or not self._hold.put(key, span, end_time):
            return False
        # The releasing thread may have ended between the first look and `put`.
        return not (self._closing and self._hold.remove(key))

    def _watched(self) -> bool:
        """Start the releasing thread unless it runs; returns whether it does.

        Two threads, started at the same moment, do no harm: one of them ends.
        """
        if self._thread is None or not self._thread.is_alive():
            inside = self._context.copy().run
            thread = threading.Thread(target=inside, args=(self._serve,), name="otel-evals-hold", daemon=True)
            self._thread = thread
            try:
                thread.start()
            except RuntimeError:  # no thread can be had, at the moment or any more
                self._thread = None
                return False
        return True

    def _serve(self) -> None:
        me = threading.current_thread()
        # After a second start at the same moment, one of the two ends.
        while self._thread is me and not (self._closing and not self._hold):
            self._work.wait(0.0 if self._closing else self._hold.next_look - time.monotonic())
            time.sleep(_GATHER_SECONDS)  # spans that are released together leave in one batch
            # Before the release: a caller that comes during it waits for the next round.
            waiting = [self._waiting.popleft() for _ in range(len(self._waiting))]
            try:
                self._release(everything=self._closing or any(everything for _, everything in waiting))
            except BaseException as error:  # whatever an exporter raises: the others wait here
                log_error(_logger, "error while releasing held spans", error=error)
            for left, _ in waiting:
                left.set()

    def _release(self, *, everything: bool) -> None:
        with self._exporting:
            ready = [
                _with(span, attributes) for span, attributes in self._hold.release(everything=everything)
            ]
            # As many as the SDK's batches have by default: servers limit the size of a request.
            for start in range(0, len(ready), _MAX_BATCH):
                try:
                    self._send(ready[start : start + _MAX_BATCH])
                except BaseException as error:  # as the SDK's processors do: the next batch may succeed
                    log_error(_logger, "held spans could not be exported", error=error)

    def _send(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export one batch at a time, since exporters need not be thread-safe, and without tracing it."""
        token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            with self._exporting:
                return self._exporter.export(spans)
        finally:
            detach(token)


class AdoptedExporter(SpanExporter):
    """Wraps an exporter: while there is a pipeline, judged spans are held for their scores.

    Other attributes are read from the exporter.
    """

    def __init__(self, exporter: SpanExporter) -> None:
        self._own = exporter
        self._held: ScoringSpanExporter | None = None
        self._leaving: ScoringSpanExporter | None = None
        """The hold of an earlier pipeline, which has spans that wait for their scores or a slow exporter."""

    def hold_by(self, hold: Callable[[SpanExporter], ScoringSpanExporter] | None) -> None:
        """Hold spans for their scores by what `Pipeline.hold` makes; None stops holding.

        Spans leave through the last one until `settle`: exporters need not be thread-safe.
        """
        self._leaving = self._held or self._leaving
        self._held = None if hold is None else hold(self._leaving or self._own)

    def settle(self) -> None:
        """Stop the last hold, which stays for now if its exporter is slow."""
        last = self._leaving
        if last is not None and last.stop(_RELEASE_SECONDS):
            self._leaving = None
            if self._held is not None:
                self._held._exporter = last._exporter

    @property
    def _next(self) -> SpanExporter:
        return self._held or self._leaving or self._own

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        return self._next.export(spans)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._next.force_flush(timeout_millis)

    def shutdown(self) -> None:
        self._next.shutdown()

    def __getattr__(self, name: str) -> Any:
        # By `__dict__`: an object that is being copied has no `_own` yet, and would ask here for ever.
        return getattr(self.__dict__["_own"], name)


def _with(span: ReadableSpan, scores: Mapping[str, Any]) -> ReadableSpan:
    """Return a span with its scores, and without names of ours that this process did not write.

    A processor that copies `baggage` would let any sender write scores.
    """
    attributes = span.attributes or {}
    if not scores and (_OURS not in "\n".join(attributes) or _is_own(span)):
        return span
    kept = {key: value for key, value in attributes.items() if not key.startswith(_OURS)}
    # Without limits: the SDK has applied the application's to the span already.
    bounded = BoundedAttributes(attributes={**kept, **scores})
    bounded.dropped = span.dropped_attributes
    changed: Any = copy.copy(span)  # with all that the SDK's spans have
    changed._attributes, changed._otel_evals_written = bounded, True
    return changed  # type: ignore[no-any-return]


def _is_own(span: ReadableSpan) -> bool:
    """Return True for a span of an evaluation, inside a scorer, or with scores: it has names of ours."""
    if hasattr(span, "_otel_evals_written"):  # the hold of a later configuration is in front of this one
        return True
    scope, context = span.instrumentation_scope, span.context
    if (scope is not None and scope.name == semconv.SCOPE_NAME) or context is None:
        return True
    proof = (span.attributes or {}).get(semconv.MARK_PROOF)
    return is_proof(proof, format_trace_id(context.trace_id), format_span_id(context.span_id))
