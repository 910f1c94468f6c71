"""Scores as attributes on the judged span: a bounded hold in front of the exporter.

`ScoringSpanExporter` wraps the exporter that a batch processor feeds. A judged span whose scores are not
all in yet is held back, at most `hold` seconds after its end, then goes on with the scores there are;
every other span passes straight through. Held spans go on from a thread of their own, so that neither
the application, nor the batch processor, nor the scoring thread waits for a slow exporter.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

__all__ = ["ScoringSpanExporter", "Verdicts"]

_logger = logging.getLogger(__name__)
_MAX_BATCH = 512
_GATHER_SECONDS = 0.01
_SWEEP_SECONDS = 0.25
_MAX_VERDICTS = 10_000

_Key = tuple[int, int]


@dataclass(slots=True)
class _Verdict:
    takers: int
    """Exporters that have not passed the span on yet."""
    attributes: dict[str, Any] = field(default_factory=dict)
    final: bool = False


class Verdicts:
    """Attributes for spans that may be judged, by trace id and span id, until exporters pick them up.

    Capture announces a span with `expect` on the application's thread, the engine adds scores and ends with
    `finish`. Only announced spans are ever held.
    """

    def __init__(self) -> None:
        self._verdicts: dict[_Key, _Verdict] = {}
        self._taking = threading.Lock()
        self._listeners: list[Callable[[_Key | None], None]] = []
        self._passing_until = 0
        self.open = True
        """False lets every span pass at once: we are leaving."""

    def after_fork(self) -> None:
        """In a forked child: whoever held the lock is not there."""
        self._taking = threading.Lock()

    def listen(self, listener: Callable[[_Key | None], None]) -> None:
        """Have a function called with each span whose scores are all in; with None when many may pass."""
        self._listeners.append(listener)

    @property
    def wanted(self) -> bool:
        """Whether any exporter waits for scores."""
        return bool(self._listeners)

    def expect(self, trace_id: int, span_id: int) -> None:
        """Announce a span that may be judged."""
        if self._listeners and self.open:
            self._verdicts[trace_id, span_id] = _Verdict(len(self._listeners))
            if len(self._verdicts) > _MAX_VERDICTS:
                self._forget_oldest()

    def add(self, trace_id: int, span_id: int, attributes: Mapping[str, Any]) -> None:
        """Add attributes to a span."""
        verdict = self._verdicts.get((trace_id, span_id))
        if verdict is not None:
            verdict.attributes.update(attributes)

    def finish(self, trace_id: int, span_id: int) -> None:
        """No more attributes will come for this span."""
        verdict = self._verdicts.get((trace_id, span_id))
        if verdict is not None:
            verdict.final = True
            self._notify((trace_id, span_id))

    def let_pass(self, until: int) -> None:
        """Let every span pass that ended by then, in nanoseconds since the Unix epoch."""
        self._passing_until = until
        self._notify()

    def close(self) -> None:
        """Let every span pass from now on."""
        self.open = False
        self._notify()

    def take(self, span: ReadableSpan, *, anyway: bool = False) -> Mapping[str, Any] | None:
        """A span's attributes so far if it may pass now (or has to), else None.

        Once every exporter has taken them, they are forgotten.
        """
        context: Any = span.context
        key = context.trace_id, context.span_id
        verdict = self._verdicts.get(key)
        if verdict is None:
            return {}
        may_pass = verdict.final or anyway or (span.end_time or 0) <= self._passing_until
        if self.open and not may_pass:
            return None
        with self._taking:
            verdict.takers -= 1
        if verdict.takers <= 0:
            self._verdicts.pop(key, None)
        return verdict.attributes

    def _forget_oldest(self) -> None:
        """Some at a time; several threads may do so at once."""
        for key in list(self._verdicts)[: _MAX_VERDICTS // 10]:
            self._verdicts.pop(key, None)

    def _notify(self, key: _Key | None = None) -> None:
        for listener in self._listeners:
            listener(key)


@dataclass(frozen=True, slots=True)
class _Held:
    span: ReadableSpan
    deadline: float


class ScoringSpanExporter(SpanExporter):
    """Passes spans to another exporter, judged ones with their scores.

    Args:
        exporter: where the spans go.
        verdicts: the scores.
        hold: seconds after its end that a judged span may be held.
        limit: how many spans are held at most.
    """

    def __init__(
        self, exporter: SpanExporter, verdicts: Verdicts, *, hold: float = 10.0, limit: int = 2048
    ) -> None:
        self._exporter = exporter
        self._verdicts = verdicts
        self._hold = hold
        self._limit = limit
        self._held: dict[_Key, _Held] = {}
        self._decided: deque[_Key] = deque()
        self._all_decided = False
        self._next_sweep = 0.0
        self._changed = threading.Condition()
        self._exporting = threading.RLock()
        self._thread: threading.Thread | None = None
        self._leaving = False
        self.passed_unheld = 0
        """Judged spans that went on without waiting because the limit was reached."""
        verdicts.listen(self._wake)

    @property
    def held(self) -> int:
        """Spans held at the moment."""
        return len(self._held)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Pass on what may go, hold what must wait."""
        passing = [decorated for span in spans if (decorated := self._pass_or_hold(span)) is not None]
        return self._send(passing) if passing else SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Release every held span with the scores there are."""
        self.release(everything=True)
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Release every held span and shut the exporter down."""
        with self._changed:
            self._leaving = True
            self._changed.notify_all()
        self.release(everything=True)
        self._exporter.shutdown()

    def after_fork(self) -> None:
        """Held spans belong to the parent process, which will export them."""
        self._held = {}
        self._verdicts.after_fork()
        self._changed, self._exporting, self._thread = threading.Condition(), threading.RLock(), None

    def _pass_or_hold(self, span: ReadableSpan) -> ReadableSpan | None:
        attributes = self._verdicts.take(span)
        if attributes is not None:
            return _with(span, attributes)
        with self._changed:
            if len(self._held) >= self._limit or self._leaving:
                self.passed_unheld += 1
                return _with(span, self._verdicts.take(span, anyway=True) or {})
            context: Any = span.context
            since_end = time.time() - (span.end_time or 0) / 1e9
            deadline = time.monotonic() + min(self._hold, max(0.0, self._hold - since_end))
            self._held[context.trace_id, context.span_id] = _Held(span, deadline)
            self._watch()
        return None

    def _watch(self) -> None:
        """Have the thread look after the held spans; called with the lock held."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="otel-evals-hold", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _wake(self, key: _Key | None) -> None:
        """A span may pass, or (None) many may; called on whatever thread decided it."""
        if key is None:
            self._all_decided = True
        elif key in self._held:
            self._decided.append(key)
        else:
            return
        with self._changed:
            self._changed.notify_all()

    def _serve(self) -> None:
        while not self._leaving:
            with self._changed:
                self._changed.wait(self._patience())
            time.sleep(_GATHER_SECONDS)
            try:
                self.release()
            except Exception:
                _logger.exception("held spans could not be exported")

    def _patience(self) -> float | None:
        """Seconds until there is something to do; None while nothing is held."""
        if not self._held:
            return None
        if self._decided or self._all_decided:
            return 0.0
        first = next(iter(self._held.values()))
        return max(0.0, min(first.deadline - time.monotonic(), _SWEEP_SECONDS))

    def release(self, *, everything: bool = False) -> None:
        """Export the held spans that may go now: decided ones and those whose time is over, or all."""
        with self._exporting:
            ready = self._leave(everything)
            for start in range(0, len(ready), _MAX_BATCH):
                self._send(ready[start : start + _MAX_BATCH])

    def _leave(self, everything: bool) -> list[ReadableSpan]:
        ready: list[ReadableSpan] = []
        with self._changed:
            now = time.monotonic()
            for key in self._candidates(now, everything):
                held = self._held.get(key)
                if held is None:
                    continue
                attributes = self._verdicts.take(held.span, anyway=everything or held.deadline <= now)
                if attributes is not None:
                    del self._held[key]
                    ready.append(_with(held.span, attributes))
        return ready

    def _candidates(self, now: float, everything: bool) -> list[_Key]:
        """Decided spans, then the oldest; all of them now and then, since they need not end in order."""
        if everything or self._all_decided or now >= self._next_sweep:
            self._all_decided, self._next_sweep = False, now + _SWEEP_SECONDS
            self._decided.clear()
            return list(self._held)
        keys = [self._decided.popleft() for _ in range(len(self._decided))]
        return [*keys, *takewhile(lambda key: self._held[key].deadline <= now, self._held)]

    def _send(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """One batch at a time, for exporters need not be thread-safe; untraced, as batch processors do."""
        token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            with self._exporting:
                return self._exporter.export(spans)
        finally:
            detach(token)


def _with(span: ReadableSpan, attributes: Mapping[str, Any]) -> ReadableSpan:
    if not attributes:
        return span
    return ReadableSpan(
        name=span.name,
        context=span.context,
        parent=span.parent,
        resource=span.resource,
        attributes={**(span.attributes or {}), **attributes},
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
