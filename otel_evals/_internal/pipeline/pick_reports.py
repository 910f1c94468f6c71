"""What rules picked, handed to the destinations that keep it for the sampler check."""

from __future__ import annotations

import asyncio

from otel_evals._internal.accounting.picks import PickLog
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.util.calls import hide_task

__all__ = ["PickReports"]

_SECONDS = 30.0


class PickReports:
    """Tells destinations now and then how many runs each rule picked.

    Args:
        picks: what was counted.
        fan_out: hands it to the destinations.
    """

    def __init__(self, picks: PickLog, fan_out: FanOut) -> None:
        self._picks = picks
        self._fan_out = fan_out

    async def run(self) -> None:
        """Tell until cancelled."""
        hide_task()
        while True:
            await asyncio.sleep(_SECONDS)
            await self.tell()

    async def tell(self) -> None:
        """Tell what has changed since a destination took it."""
        rows = self._picks.changed()
        if rows and await self._fan_out.keep_picks(rows):
            self._picks.told(rows)
