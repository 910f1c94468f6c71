"""The spans that have started and not ended yet, as capture sees them."""

from __future__ import annotations

from typing import Final

from opentelemetry.sdk.trace import Span

_TRACE_ID: Final = 0
_SPAN_ID: Final = 1
MOST_LOOKED_AT: Final = 5_000


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
        # A copy: the application's threads change the dict, which fails an iteration.
        spans = dict(self.by_id)
        return {
            i: s for i, s in spans.items() if s is not None and s.get_span_context()[_TRACE_ID] == trace_id
        }

    def upward(self, span_id: int) -> tuple[int, ...]:
        """Return the ids of an open span and those above it, or nothing if one of them was not captured."""
        found: list[int] = []
        while (span := self.by_id.get(span_id)) is not None and len(found) < MOST_LOOKED_AT:
            found.append(span_id)
            parent = span.parent
            if parent is None or parent.is_remote:
                return tuple(found)
            span_id = parent.span_id
        return ()
