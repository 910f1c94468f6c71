"""The time up to which the assigned partitions have been read, by the timestamps of their messages.

A trace is complete once it was quiet by this clock. The clock stops while messages wait to be read and while
the brokers cannot be reached, so that a backlog or an outage does not cut traces up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from otel_evals_gateway._internal.kafka.offsets import Partition

_RECOVERY_SECONDS = 15.0
"""Seconds after an outage in which producers may still send what they could not send during it."""


class SourceClock:
    """All times are seconds since the epoch."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._read_to: dict[Partition, float] = {}
        self._behind: set[Partition] = set()
        self._caught_up = self._recovering = 0.0
        self._reachable = True
        self.now = 0.0

    def read(self, partition: Partition, timestamp: float) -> float:
        """Note a message, and return its time: its timestamp, but no time in the future."""
        at = min(timestamp, self._wall())
        self._read_to[partition] = max(at, self._read_to.get(partition, 0.0))
        return at

    def looked(self, ends: Mapping[Partition, int], positions: Mapping[Partition, int], when: float) -> None:
        """Note the ends of the partitions at a time, and how far each was read by then."""
        self._reachable = True
        self._behind = {place for place, end in ends.items() if positions.get(place, -1) < end}
        self._caught_up = when
        self._advance(ends)

    def lost_sight(self) -> None:
        """Note that the brokers cannot be reached: the clock stops."""
        self._reachable = False
        self._recovering = self._wall() + _RECOVERY_SECONDS

    def let_go(self, seconds: float) -> None:
        """Advance by seconds, although messages wait: the open traces must close."""
        self.now = min(self._wall(), self.now + seconds)

    def _advance(self, places: Collection[Partition]) -> None:
        if not self._reachable or self._wall() < self._recovering:
            return
        times = [self._read_to.get(each, 0.0) if each in self._behind else self._caught_up for each in places]
        self.now = max(self.now, min(times, default=0.0))
