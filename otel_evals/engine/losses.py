"""One log line when losses begin and one when they have ended, with totals by reason."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping

__all__ = ["LossLog"]

_logger = logging.getLogger(__name__)


class LossLog:
    """Watches counters that only grow; costs nothing where the losses happen.

    Args:
        totals: losses so far, by where and why.
        quiet: seconds without a loss after which losses have ended.
        apart: least seconds between two lines that say that losses began.
        every: seconds between two looks; what comes in between is ignored.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        totals: Callable[[], Mapping[str, int]],
        *,
        quiet: float = 10.0,
        apart: float = 60.0,
        every: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._totals = totals
        self._quiet = quiet
        self._apart = apart
        self._every = every
        self._next = float("-inf")
        self._clock = clock
        self._told: Counter[str] = Counter()
        self._last: Counter[str] = Counter()
        self._losing = False
        self._changed = 0.0
        self._began = float("-inf")

    def look(self) -> None:
        """Compare with the last look; call it now and then."""
        now = self._clock()
        if now < self._next:
            return
        self._next, totals = now + self._every, Counter(self._totals())
        if totals != self._last:
            self._last, self._changed = totals, now
        if self._losing:
            if now - self._changed >= self._quiet:
                self._end("have ended")
        elif totals != self._told and now - self._began >= self._apart:
            self._losing, self._began = True, now
            _logger.warning("scoring began to lose: %s", _listed(totals - self._told))

    def close(self) -> None:
        """Tell what has not been told: we are leaving."""
        self._last = Counter(self._totals())
        if self._last != self._told:
            self._end("until the end")

    def _end(self, when: str) -> None:
        _logger.warning("losses of scoring %s; in all: %s", when, _listed(self._last - self._told))
        self._told, self._losing = self._last, False


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {where}" for where, count in sorted(counts.items()))
