"""Which roots complete their run, as seen by the application's process and told to the engine's.

Only where spans start and end is it known which of them are open. What is found there goes with the items.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from otel_evals._internal.capture.items import CapturedItem, CapturedSpan
from otel_evals._internal.capture.open_spans import OpenSpansNow

__all__ = ["CompleteRoots", "ToldOpenSpans", "complete_roots"]

_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class CompleteRoots:
    """What is told with a batch of items."""

    span_ids: tuple[int, ...] = ()
    waiting: int = 0
    """Their runs are complete once so many items have arrived, from the first of the batch on."""


def complete_roots(batch: Iterable[CapturedItem], now: OpenSpansNow) -> CompleteRoots:
    """The roots among these items below which nothing is open.

    Args:
        batch: the next items to be sent.
        now: the open spans when those items were still waiting.
    """
    found = []
    for item in batch:
        if isinstance(item, CapturedSpan) and not item.owner:
            context, parent = item.span.context, item.span.parent
            if context and now.only_above(context.trace_id, parent.span_id if parent else 0):
                found.append(context.span_id)
    return CompleteRoots(tuple(found), now.waiting)


class ToldOpenSpans(OpenSpansNow):
    """In the engine's process: answers by what was told. Told on one thread, asked on another."""

    def __init__(self) -> None:
        super().__init__({}, 0)
        self._after: dict[int, int] = {}

    def tell(self, roots: CompleteRoots, received: int) -> None:
        """Take what came with a batch, before its items.

        Args:
            roots: what was told.
            received: how many items have arrived before.
        """
        for span_id in roots.span_ids:
            self._after[span_id] = received + roots.waiting
        while len(self._after) > _REMEMBERED:
            self._after.pop(next(iter(self._after)), None)

    def complete_after(self, trace_id: int, span_id: int, parent_id: int, added: int) -> int | None:
        """As it was told of this root; each is asked about once."""
        return self._after.pop(span_id, None)
