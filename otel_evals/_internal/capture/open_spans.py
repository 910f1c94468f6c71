"""The spans that have started and not ended yet, as capture sees them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.sdk.trace import Span

_TRACE_ID: Final = 0
_SPAN_ID: Final = 1
_MOST_LOOKED_AT: Final = 5_000


class OpenSpans:
    """The open spans by id. Written on the application's threads, read on the engine's."""

    def __init__(self) -> None:
        self.by_id: dict[int, Span | None] = {}
        """None marks a span of an evaluation."""
        self.checks = False
        """True once the application checks answers: runs below an open span then wait for `grace`."""
        self.guarded: set[int] = set()
        """Ids of the traces that began in a guarded call that has not ended."""

    def of_trace(self, trace_id: int) -> dict[int, Span]:
        """Return the open spans of a trace by id, without evaluations' spans."""
        spans = dict(self.by_id)
        return {
            i: s for i, s in spans.items() if s is not None and s.get_span_context()[_TRACE_ID] == trace_id
        }

    def upward(self, span_id: int) -> tuple[int, ...]:
        """Return the ids of an open span and those above it, or nothing if one of them was not captured."""
        found: list[int] = []
        while (span := self.by_id.get(span_id)) is not None and len(found) < _MOST_LOOKED_AT:
            found.append(span_id)
            parent = span.parent
            if parent is None or parent.is_remote:
                return tuple(found)
            span_id = parent.span_id
        return ()

    def now(self) -> OpenSpansNow:
        """Return the open spans at this moment."""
        return OpenSpansNow(dict(self.by_id), self if self.checks else None)


class OpenSpansNow:
    """The open spans at a moment, by span id."""

    def __init__(self, spans: Mapping[int, Span | None], checks: OpenSpans | None = None) -> None:
        self._checks = checks
        self._known = len(spans) <= _MOST_LOOKED_AT
        self._above: dict[int, int] = {}
        self._by_trace: dict[int, int] = {}
        for span_id, span in spans.items() if self._known else ():
            if span is not None:
                context: Any = span.context
                parent: Any = span.parent
                self._above[span_id] = parent[_SPAN_ID] if parent is not None else 0
                self._by_trace[context[_TRACE_ID]] = self._by_trace.get(context[_TRACE_ID], 0) + 1

    def may_be_checked(self, trace_id: int, parent_id: int) -> bool:
        """Return True if the answer of a run that has ended may still be checked."""
        return self._checks is not None and (parent_id in self._above or trace_id in self._checks.guarded)

    def only_above(self, trace_id: int, span_id: int, parent_id: int) -> bool:
        """Return True if at most this span and those above it are open in a trace; 0 stands for no parent."""
        above = self._above
        if not self._known:
            return False
        # A span is handed over before it stops being open.
        count, seen = self._by_trace.get(trace_id, 0), int(span_id in above)
        while parent_id in above and seen <= count:
            seen += 1
            parent_id = above[parent_id]
        return seen == count
