"""The time up to which each assigned partition has been read, by the timestamps of the messages.

A trace is complete once it was quiet by its partition's clock. The clocks stop while messages wait to be
read and while the brokers cannot be reached, so that a backlog or an outage does not cut traces up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from otel_evals_gateway._internal.kafka.offsets import Partition

_RECOVERY_SECONDS = 15.0
"""Seconds after an outage in which producers may still send what they could not send during it."""


class SourceClock:
    """All times are seconds since the epoch; 0 for a partition of which nothing was read."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._read_to: dict[Partition, float] = {}
        self._times: dict[Partition, float] = {}
        self._recovering = 0.0

    @property
    def now(self) -> float:
        """Return the time of the partition that is furthest behind."""
        return min(self._times.values(), default=0.0)

    @property
    def times(self) -> dict[Partition | str, float]:
        """Return the time of each partition and each whole topic."""
        topics: dict[Partition | str, float] = {}
        for (topic, _), at in self._times.items():
            topics[topic] = min(at, topics.get(topic, at))
        return topics | self._times

    def assign(self, partitions: Iterable[Partition]) -> None:
        """Start the clocks of partitions, which another member may have read further than the last time."""
        new = dict.fromkeys(partitions, 0.0)
        self._read_to |= new
        self._times |= new

    def lose(self, partitions: Iterable[Partition]) -> None:
        """Forget partitions that another member reads now."""
        for place in partitions:
            self._read_to.pop(place, None)
            self._times.pop(place, None)

    def read(self, partition: Partition, timestamp: float) -> float:
        """Note a message, and return its time: its timestamp, but no time in the future."""
        at = min(timestamp, self._wall())
        self._read_to[partition] = max(at, self._read_to.get(partition, 0.0))
        return at

    def looked(self, ends: Mapping[Partition, int], positions: Mapping[Partition, int], when: float) -> None:
        """Note the ends of the partitions at a time, and how far each was read by then."""
        for place, end in ends.items():
            if positions.get(place, -1) >= end:
                self._read_to[place] = max(when, self._read_to.get(place, 0.0))
        if self._wall() >= self._recovering:
            self._advance()

    def lost_sight(self) -> None:
        """Note that the brokers cannot be reached: the clocks stop."""
        self._recovering = self._wall() + _RECOVERY_SECONDS

    def let_go(self, seconds: float) -> None:
        """Advance by seconds, although messages wait: the open traces must close."""
        now = self._wall()
        if now >= self._recovering:
            start = min(filter(None, self._times.values()), default=now)
            self._times = {place: min(now, (at or start) + seconds) for place, at in self._times.items()}

    def _advance(self) -> None:
        """Advance the clocks; a trace may have log records in the other topic, at any partition."""
        topics: dict[str, float] = {}
        for (topic, _), at in self._read_to.items():
            topics[topic] = min(at, topics.get(topic, at))
        for place, at in self._read_to.items():
            others = (earliest for topic, earliest in topics.items() if topic != place[0])
            self._times[place] = max(self._times.get(place, 0.0), min(at, *others, at))
