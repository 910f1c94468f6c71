"""The spans that have started and not ended yet, as the way in sees them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from opentelemetry.sdk.trace import Span

_TRACE_ID: Final = 0
_SPAN_ID: Final = 1
_MOST_LOOKED_AT: Final = 5_000


class OpenSpans:
    """Written on the application's threads, looked at on the engine's."""

    def __init__(self) -> None:
        self.by_id: dict[int, Span | None] = {}
        """By span id; None stands for a span of ours."""

    def now(self, waiting: Callable[[], int]) -> OpenSpansNow:
        """The open spans at this moment.

        Args:
            waiting: tells how many captured items assembly has not been given.
        """
        # Copied first: a span that is not open in the copy was handed over before, so it counts as waiting.
        spans = dict(self.by_id)
        return OpenSpansNow(spans, waiting())


class OpenSpansNow:
    """The open spans of one moment.

    Args:
        spans: by span id.
        waiting: how many captured items assembly had not been given at that moment.
    """

    def __init__(self, spans: Mapping[int, Span | None], waiting: int) -> None:
        self.waiting = waiting
        self._known = len(spans) <= _MOST_LOOKED_AT
        self._above: dict[int, int] = {}
        self._by_trace: Counter[int] = Counter()
        if self._known:
            for span_id, span in spans.items():
                if span is not None:
                    self._add(span_id, span)

    def _add(self, span_id: int, span: Span) -> None:
        context: Any = span.context
        parent: Any = span.parent
        self._above[span_id] = parent[_SPAN_ID] if parent is not None else 0
        self._by_trace[context[_TRACE_ID]] += 1

    def complete_after(self, trace_id: int, span_id: int, parent_id: int, added: int) -> int | None:
        """How many items assembly must have been given before the run of a root is complete.

        Args:
            trace_id: of the root.
            span_id: of the root.
            parent_id: of the span above it; 0 stands for none.
            added: how many it has been given.

        Returns:
            None if more spans of its trace are open than those above it.
        """
        return added + self.waiting if self.only_above(trace_id, parent_id) else None

    def only_above(self, trace_id: int, parent_id: int) -> bool:
        """Whether a trace has no open spans but this one and those above it; 0 stands for no parent."""
        above = self._above
        if not self._known:
            return False
        count, seen = self._by_trace[trace_id], 0
        while parent_id in above and seen <= count:
            seen += 1
            parent_id = above[parent_id]
        return seen == count
