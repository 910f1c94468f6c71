"""Two log lines per series of losses: one when it begins, one with totals by reason when it has ended."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping

_logger = logging.getLogger(__name__)


class LossLog:
    """Polls counters that only grow, so that counting a loss logs nothing by itself.

    Args:
        quiet: seconds without a loss after which a series has ended.
        apart: least seconds between the first lines of two series.
        every: least seconds between two polls; calls in between do nothing.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        *,
        quiet: float = 10.0,
        apart: float = 60.0,
        every: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._quiet = quiet
        self._apart = apart
        self._every = every
        self.next_poll = float("-inf")
        """When `poll` does something again, on this clock."""
        self._clock = clock
        self._logged: Counter[str] = Counter()
        self._last: Counter[str] = Counter()
        self._losing = False
        self._changed = 0.0
        self._began = float("-inf")

    def poll(self, losses: Mapping[str, int]) -> None:
        """Compare the losses so far with those of the last poll; log when a series begins or has ended."""
        now = self._clock()
        if now < self.next_poll:
            return
        self.next_poll, totals = now + self._every, Counter(losses)
        if totals != self._last:
            self._last, self._changed = totals, now
        if self._losing:
            if now - self._changed >= self._quiet:
                self._end("no more losses for now")
        elif totals != self._logged and now - self._began >= self._apart:
            self._losing, self._began = True, now
            _logger.warning("scoring is losing data: %s", _listed(totals - self._logged))

    def close(self, losses: Mapping[str, int]) -> None:
        """Log the losses that have not been logged, when scoring is shut down."""
        self._last = Counter(losses)
        if self._last != self._logged:
            self._end("shut down")

    def _end(self, state: str) -> None:
        _logger.warning("scoring lost data (%s), in total: %s", state, _listed(self._last - self._logged))
        self._logged, self._losing = self._last, False


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {where}" for where, count in sorted(counts.items()))
