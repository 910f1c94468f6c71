"""Scores as attributes on the judged span: a bounded hold in front of the exporter.

A judged span with incomplete scores is held for at most `hold` seconds; every other span is exported at once.
A separate thread exports held spans: a slow exporter delays neither the application, nor the batch
processor, nor the scoring thread. `PendingScores` and the exporter are in one module because
they are two sides of one protocol between threads.
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from opentelemetry.attributes import BoundedAttributes
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from otel_evals._internal.capture.backlog import size_of_captured
from otel_evals._internal.util.error_log import log_error

_logger = logging.getLogger(__name__)
_MAX_BATCH = 512
_GATHER_SECONDS = 0.01
_SWEEP_SECONDS = 0.25
_MAX_PENDING = 10_000
_UNMEASURED = 64
"""Number of spans that may be held without being measured."""
_STOP_SECONDS = 30.0

_Key = tuple[int, int]
"""Trace id and span id."""


@dataclass(frozen=True, slots=True)
class _Held:
    span: ReadableSpan
    deadline: float
    size: int


class HeldSpans:
    """The spans that one exporter holds, and those that may have become free to pass."""

    def __init__(self) -> None:
        self.spans: dict[_Key, _Held] = {}
        self.complete: deque[_Key] = deque()
        self.check_all = False
        """Whether any span may pass, not only complete ones."""
        self.changed = threading.Condition()

    def wake(self, key: _Key | None = None) -> None:
        """Note that a span may pass, or (None) that any may; called on any thread."""
        if key is None:
            self.check_all = True
        elif key in self.spans:
            self.complete.append(key)
        else:
            return
        with self.changed:
            self.changed.notify_all()

    def after_fork(self) -> None:
        """Drop the held spans in a forked child: the parent process will export them."""
        self.spans.clear()
        self.changed = threading.Condition()


@dataclass(slots=True)
class _Pending:
    exporters: int
    """Number of exporters that have not exported the span yet."""
    attributes: dict[str, Any] = field(default_factory=dict)
    complete: bool = False


class PendingScores:
    """Attributes for spans that may be judged, until every exporter has taken them.

    Capture announces a span on the application's thread, the engine adds scores and finishes it. Only
    announced spans are held. Exporters' threads run in `context`, which has the pipeline's privacy settings.
    """

    def __init__(self, context: contextvars.Context | None = None) -> None:
        self.context = context or contextvars.Context()
        self._pending: dict[_Key, _Pending] = {}
        self._taking = threading.Lock()
        self._exporters: list[HeldSpans] = []
        self._passing_until = 0
        self.open = True
        """Whether spans are held; False once scoring is shut down."""

    def after_fork(self) -> None:
        """Replace the lock in a forked child: a thread of the parent may have held it."""
        self._taking = threading.Lock()

    def add_exporter(self, held: HeldSpans) -> None:
        self._exporters.append(held)

    def expect(self, trace_id: int, span_id: int) -> None:
        """Announce a span that may be judged."""
        if self._exporters and self.open:
            self._pending[trace_id, span_id] = _Pending(len(self._exporters))
            if len(self._pending) > _MAX_PENDING:
                self._forget_oldest()

    def add(self, trace_id: int, span_id: int, attributes: Mapping[str, Any]) -> None:
        pending = self._pending.get((trace_id, span_id))
        if pending is not None:
            pending.attributes.update(attributes)

    def release(self, trace_id: str, span_id: str) -> None:
        """Let a span pass, given by its ids in hex; malformed ids, as in odd files, are ignored."""
        try:
            key = int(trace_id, 16), int(span_id, 16)
        except ValueError:
            return
        if key in self._pending:  # most spans of a run are never announced
            self.finish(*key)

    def finish(self, trace_id: int, span_id: int) -> None:
        """Let a span pass: it gets no more attributes."""
        pending = self._pending.get((trace_id, span_id))
        if pending is not None:
            pending.complete = True
            for held in self._exporters:
                held.wake((trace_id, span_id))

    def let_pass(self, until: int) -> None:
        """Let every span pass that ended by then, in nanoseconds since the Unix epoch."""
        self._passing_until = until
        self._wake_all()

    def close(self) -> None:
        self.open = False
        self._wake_all()

    def take(self, span: ReadableSpan, *, anyway: bool = False) -> Mapping[str, Any] | None:
        """Return a span's attributes for one exporter; None if the span must be held.

        They are deleted once every exporter has taken them. With `anyway`, they need not be complete.
        """
        context: Any = span.context
        key = context.trace_id, context.span_id
        pending = self._pending.get(key)
        if pending is None:
            return {}
        if not (pending.complete or anyway or self.lets_pass(span)):
            return None
        with self._taking:
            pending.exporters -= 1
        if pending.exporters <= 0:
            self._pending.pop(key, None)
        return pending.attributes

    def lets_pass(self, span: ReadableSpan) -> bool:
        return not self.open or (span.end_time or 0) <= self._passing_until

    def _forget_oldest(self) -> None:
        """Delete the oldest tenth; may run on several threads at once."""
        for key in list(self._pending)[: _MAX_PENDING // 10]:
            self._pending.pop(key, None)

    def _wake_all(self) -> None:
        for held in self._exporters:
            held.wake()


class ScoringSpanExporter(SpanExporter):
    """Exports spans through another exporter, judged ones with their scores.

    It holds a judged span for at most `hold` seconds after its end, and at most `limit` spans of `max_bytes`.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        scores: PendingScores,
        *,
        hold: float = 10.0,
        limit: int = 2048,
        max_bytes: int = 2**28,
    ) -> None:
        self._exporter = exporter
        self._scores = scores
        self._hold = hold
        self._limit = limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self._waiting = HeldSpans()
        scores.add_exporter(self._waiting)
        self._held = self._waiting.spans
        self._everything = False
        self._next_sweep = 0.0
        self._exporting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._closing = False
        self.passed_unheld = 0
        """Judged spans that were not held: the limit was reached, or no thread could be started."""

    @property
    def held(self) -> int:
        """Number of spans held now."""
        return len(self._held)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        passing = [decorated for span in spans if (decorated := self._pass_or_hold(span)) is not None]
        return self._send(passing) if passing else SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Release every held span with the scores there are; returns whether all left in time."""
        deadline = time.monotonic() + timeout_millis / 1000
        self._release_everything()
        if not self.wait_until_released(deadline):
            return False
        return self._exporter.force_flush(max(0, int(1000 * (deadline - time.monotonic()))))

    def wait_until_released(self, deadline: float) -> bool:
        """Wait until a `time.monotonic` deadline for spans that may pass; returns whether they left.

        The releasing thread exports them: an exporter that blocks must not block the caller.
        """
        with self._waiting.changed:
            if not self._waiting.changed.wait_for(self._none_left, max(0.0, deadline - time.monotonic())):
                return False
        if not self._exporting.acquire(timeout=max(0.0, deadline - time.monotonic())):
            return False
        self._exporting.release()
        return True

    def stop(self, seconds: float = _STOP_SECONDS) -> bool:
        """Release every held span and hold no more; returns whether all left in time."""
        with self._waiting.changed:
            self._closing = True
        self._release_everything()
        return self.wait_until_released(time.monotonic() + seconds)

    def shutdown(self) -> None:
        self.stop()
        self._exporter.shutdown()

    def after_fork(self) -> None:
        """Drop the held spans in a forked child: the parent process will export them."""
        self._bytes, self._everything = 0, False
        self._waiting.after_fork()
        self._scores.after_fork()
        self._exporting, self._thread = threading.RLock(), None

    def _pass_or_hold(self, span: ReadableSpan) -> ReadableSpan | None:
        attributes = self._scores.take(span)
        if attributes is not None:
            return _with(span, attributes)
        size = size_of_captured(span) if len(self._held) >= _UNMEASURED else 0
        with self._waiting.changed:
            if len(self._held) >= self._limit or self._bytes + size > self._max_bytes or self._closing:
                self.passed_unheld += 1
                return _with(span, self._scores.take(span, anyway=True) or {})
            if not self._watched():
                return _with(span, self._scores.take(span, anyway=True) or {})
            context: Any = span.context
            since_end = time.time() - (span.end_time or 0) / 1e9
            deadline = time.monotonic() + min(self._hold, max(0.0, self._hold - since_end))
            self._held[context.trace_id, context.span_id] = _Held(span, deadline, size)
            self._bytes += size
            self._waiting.changed.notify_all()
        return None

    def _watched(self) -> bool:
        """Start the releasing thread unless it runs; returns whether it does. Needs the lock."""
        if self._thread is None or not self._thread.is_alive():
            inside = self._scores.context.copy().run
            thread = threading.Thread(target=inside, args=(self._serve,), name="otel-evals-hold", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # no thread can be had, at the moment or any more
                self.passed_unheld += 1
                return False
            self._thread = thread
        return True

    def _release_everything(self) -> None:
        with self._waiting.changed:
            self._everything = bool(self._held)
            self._waiting.changed.notify_all()

    def _none_left(self) -> bool:
        """Return True if no held span may pass. Needs the lock."""
        held = self._held.values()
        return not self._everything and not any(self._scores.lets_pass(each.span) for each in held)

    def _serve(self) -> None:
        while not self._closing or self._held:
            with self._waiting.changed:
                self._waiting.changed.wait(self._idle_for())
            time.sleep(_GATHER_SECONDS)  # spans that are released together leave in one batch
            try:
                self.release()
            except BaseException as error:  # whatever an exporter raises: the others wait here
                log_error(_logger, "error while releasing held spans", error=error)

    def _idle_for(self) -> float | None:
        """Return the seconds until there is something to do; None while nothing is held."""
        if self._closing or self._everything:
            return 0.0
        if not self._held:
            return None
        if self._waiting.complete or self._waiting.check_all:
            return 0.0
        first = next(iter(self._held.values()))
        return max(0.0, min(first.deadline - time.monotonic(), _SWEEP_SECONDS))

    def release(self) -> None:
        """Export held spans that are complete or overdue, or all of them on request."""
        with self._exporting:
            ready = self._take_ready()
            for start in range(0, len(ready), _MAX_BATCH):
                try:
                    self._send(ready[start : start + _MAX_BATCH])
                except BaseException as error:  # as the SDK's processors do: the next batch may succeed
                    log_error(_logger, "held spans could not be exported", error=error)

    def _take_ready(self) -> list[ReadableSpan]:
        ready: list[ReadableSpan] = []
        with self._waiting.changed:
            now, everything = time.monotonic(), self._everything or self._closing
            for key in self._candidates(now, everything):
                held = self._held.get(key)
                if held is None:
                    continue
                attributes = self._scores.take(held.span, anyway=everything or held.deadline <= now)
                if attributes is not None:
                    del self._held[key]
                    self._bytes -= held.size
                    ready.append(_with(held.span, attributes))
            self._everything = False
            self._waiting.changed.notify_all()
        return ready

    def _candidates(self, now: float, everything: bool) -> list[_Key]:
        """Return complete and overdue spans; all at each sweep, since deadlines may be unordered."""
        if everything or self._waiting.check_all or now >= self._next_sweep:
            self._waiting.check_all, self._next_sweep = False, now + _SWEEP_SECONDS
            self._waiting.complete.clear()
            return list(self._held)
        keys = [self._waiting.complete.popleft() for _ in range(len(self._waiting.complete))]
        return [*keys, *takewhile(lambda key: self._held[key].deadline <= now, self._held)]

    def _send(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export one batch at a time, since exporters need not be thread-safe, and without tracing it."""
        token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            with self._exporting:
                return self._exporter.export(spans)
        finally:
            detach(token)


def _with(span: ReadableSpan, attributes: Mapping[str, Any]) -> ReadableSpan:
    if not attributes:
        return span
    bounded = BoundedAttributes(attributes={**(span.attributes or {}), **attributes})
    bounded.dropped = span.dropped_attributes
    copy = ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes=bounded,
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
    for field_name in ("_events", "_links"):  # they count items dropped by the span's limits
        if hasattr(span, field_name):
            setattr(copy, field_name, getattr(span, field_name))
    return copy
