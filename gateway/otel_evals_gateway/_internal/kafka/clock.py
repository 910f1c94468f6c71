"""The time up to which all assigned partitions have been read, by the timestamps of their messages.

A trace is complete once it was quiet by this clock: a backlog or an outage must not make it look quiet. The
clock stands still while messages wait to be read, and while the brokers cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from otel_evals_gateway._internal.kafka.progress import Partition

_RECOVERY_SECONDS = 15.0
"""Seconds after an outage in which producers may still send what they could not send during it."""


class ReadingClock:
    """All times are seconds since the epoch. Written on the consumer's thread, read on any."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._read_to: dict[Partition, float] = {}
        """0 for a partition of which nothing was read."""
        self._recovering = 0.0

    @property
    def now(self) -> float:
        """The time of the partition that is furthest behind; the present without partitions."""
        return min(list(self._read_to.values()), default=self._wall())

    def assign(self, places: Iterable[Partition]) -> None:
        """Start at nothing: another member may have read further than this one did before."""
        self._read_to |= dict.fromkeys(places, 0.0)

    def lose(self, places: Iterable[Partition]) -> None:
        for place in places:
            self._read_to.pop(place, None)

    def read(self, place: Partition, timestamp: float) -> float:
        """Note a message; returns the time of its partition, which no sender can move into the future."""
        at = self._read_to[place] = max(min(timestamp, self._wall()), self._read_to.get(place, 0.0))
        return at

    def caught_up(self, places: Iterable[Partition], when: float) -> None:
        """Note the partitions of which nothing was left to read at a time."""
        if self._wall() >= self._recovering:
            for place in places:
                self._read_to[place] = max(when, self._read_to.get(place, 0.0))

    def lost_sight(self) -> None:
        """Note that the brokers cannot be reached."""
        self._recovering = self._wall() + _RECOVERY_SECONDS

    def skip(self, seconds: float) -> None:
        """Advance although messages wait: so many traces are open that some must close."""
        now = self._wall()
        if now >= self._recovering:
            start = min(filter(None, self._read_to.values()), default=now)
            for place, at in self._read_to.items():
                self._read_to[place] = min(now, (at or start) + seconds)
