"""When traces close: by the time up to which all assigned partitions have been read, as of their messages.

A trace is complete once it was quiet by this clock: a backlog or an outage must not make it look quiet. The
clock follows the messages. Where a partition is read to its end, it advances with the time that passes, and
does not jump to the present: producers may be behind with what they could not send in an outage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable
from math import inf
from typing import Any, NamedTuple

from otel_evals.sdk.pipeline import QuietClosing
from otel_evals_gateway._internal.kafka.progress import Partition, Progress

_RECOVERY_SECONDS = 15.0
"""Seconds after an outage in which the clock stands: producers may wait before they send again."""
_SPEED = 1.25
"""Seconds that the clock of a partition without new messages advances in one second, to reach the present."""
_LOOK_SECONDS = 0.05
"""Seconds until the next look at a trace that waits for the clock."""


class _Look(NamedTuple):
    """That a partition was read to its end at some time, when its clock had this time."""

    when: float
    clock: float


class ReadingClock:
    """All times are seconds since the epoch. Written on the consumer's thread, read on any."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._read_to: dict[Partition, float] = {}
        """0 for a partition of which nothing was read."""
        self._at_end: dict[Partition, _Look] = {}
        self._recovering = 0.0
        self._published: deque[tuple[int, float]] = deque()
        self._taken = 0.0

    def publish(self, put: int) -> None:
        """Note that the engine has all items up to the present time once it has taken so many."""
        self._published.append((put, self.now))

    def taken_to(self, taken: float, waiting: int) -> float:
        """Return the time up to which the engine has taken all items. Called on its thread.

        In a backlog, it may not have the rest of a trace that was read long ago.
        """
        while self._published and (self._published[0][0] <= taken or not waiting):
            try:
                self._taken = self._published.popleft()[1]
            except IndexError:  # partitions are being assigned
                break
        return self._taken

    @property
    def now(self) -> float:
        """The time of the partition that is furthest behind; the present without partitions."""
        return min(list(self._read_to.values()), default=self._wall())

    def assign(self, places: Iterable[Partition]) -> None:
        """Start at nothing: another member may have read further than this one did before."""
        for place in places:
            self._read_to[place] = 0.0
            self._at_end.pop(place, None)
        # What was published before counts partitions that this member no longer reads.
        self._published.clear()
        self._taken = 0.0

    def lose(self, places: Iterable[Partition]) -> None:
        for place in places:
            self._read_to.pop(place, None)
            self._at_end.pop(place, None)

    def read(self, place: Partition, timestamp: float) -> float:
        """Note a message; returns the time of its partition, which no sender can move into the future."""
        at = self._read_to[place] = max(min(timestamp, self._wall()), self._read_to.get(place, 0.0))
        return at

    def looked(self, at_end: Collection[Partition]) -> None:
        """Note of which partitions nothing was left to read."""
        now = self._wall()
        for place, before in self._read_to.items():
            if place not in at_end:
                self._at_end.pop(place, None)
                continue
            look = self._at_end.get(place)
            if not before:
                self._read_to[place] = now
            elif look is not None and now >= self._recovering:
                # A message in between has moved the clock already.
                speed = _SPEED if look.clock == before else 1.0
                self._read_to[place] = min(now, before + speed * (now - look.when))
            self._at_end[place] = _Look(now, self._read_to[place])

    def lost_sight(self) -> None:
        """Note that the brokers cannot be reached."""
        self._recovering = self._wall() + _RECOVERY_SECONDS
        self._at_end = {place: look._replace(when=self._wall()) for place, look in self._at_end.items()}

    def skip(self, seconds: float) -> None:
        """Advance although messages wait: so many traces are open that some must close."""
        now = self._wall()
        if now >= self._recovering:
            start = min(filter(None, self._read_to.values()), default=now)
            for place, at in self._read_to.items():
                self._read_to[place] = min(now, (at or start) + seconds)


class MessageClosing(QuietClosing):
    """Closes a trace of messages once all partitions have been read to some time after its last message.

    It closes as a whole when it is older than `max_age`: it would hold back its partition's offset for as
    long as it goes on. Traces that were received in requests close as usual.
    """

    def __init__(self, progress: Progress, clock: Callable[[], float], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._progress = progress
        self._clock = clock

    def closes_at(self, trace: Any, now: float) -> float:
        # Only traces of messages are known there; others came in requests.
        last = self._progress.last(trace.trace_id)
        if last is None:
            return super().closes_at(trace, now)
        seconds = self.seconds(trace)
        left = last + seconds - self._clock()
        if left <= 0 or now >= trace.first_seen + self.max_age:
            return now
        return now + max(_LOOK_SECONDS, min(left, seconds))  # the clock may jump

    def parts(self, trace: Any, now: float) -> list[list[str]]:
        if self._progress.last(trace.trace_id) is None:
            return super().parts(trace, now)
        # At the end of this process, the next reader gets them from their first message on.
        is_over = now < inf and self.closes_at(trace, now) <= now
        return [[*trace.spans]] if is_over else []
