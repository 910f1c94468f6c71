"""Destinations are told what rules picked, until one that keeps it has taken it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from otel_evals import Rule, sampling
from otel_evals._internal.accounting.picks import PickLog
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.pipeline.pick_reports import PickReports
from otel_evals._internal.sampling.decide import Decider
from otel_evals.scorers import answered
from otel_evals.testing import InMemoryDestination
from tests.support.runs import a_run


class Keeper(InMemoryDestination):
    """Keeps what it is told, if it is not down."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self.told: list[Sequence[Any]] = []

    async def keep_picks(self, rows: Sequence[Any]) -> None:
        if self.down:
            raise OSError("the disk is full")
        self.told.append(rows)


def test_what_was_taken_is_not_told_again_and_what_was_not_is() -> None:
    picks, keeper = PickLog(), Keeper()
    (decision,) = Decider([Rule(answered(), sample=sampling.ratio(0.5))]).decide(a_run(), "run")[1]
    picks.note(a_run(), decision)

    async def main() -> None:
        reports = PickReports(picks, FanOut([keeper]))
        keeper.down = True
        await reports.tell()
        assert keeper.told == []
        keeper.down = False
        await reports.tell()
        await reports.tell()

    anyio.run(main)
    ((row,),) = keeper.told
    assert (row.rule, row.picks.runs) == ("answered", 1)
