"""Keeps an earlier revision from overwriting a later one at a backend that has one score per evaluation."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from otel_evals._internal.deliver.items import ScoreItem

_REMEMBERED = 20_000


class SentRevisions:
    """Remembers the later revisions that a backend has accepted, up to 20,000.

    Judges take their time and refused scores are sent again, so an earlier revision may be the last to leave.
    """

    def __init__(self) -> None:
        self._sent: OrderedDict[str, int] = OrderedDict()

    def current(self, items: Iterable[ScoreItem]) -> list[ScoreItem]:
        """Return the items without those that have a later revision among them or at the backend."""
        items = list(items)
        newest: dict[str, int] = {}
        for item in items:
            known = newest.get(item.id) or self._sent.get(item.id, 0)
            newest[item.id] = max(known, item.evaluation.revision)
        return [item for item in items if item.evaluation.revision == newest[item.id]]

    def accepted(self, items: Iterable[ScoreItem]) -> None:
        """Remember items that the backend has accepted; a first revision replaces none."""
        for item in items:
            if item.evaluation.revision > 1:
                self._sent[item.id] = item.evaluation.revision
                self._sent.move_to_end(item.id)
        while len(self._sent) > _REMEMBERED:
            self._sent.popitem(last=False)
