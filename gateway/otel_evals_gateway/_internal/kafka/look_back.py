"""Reads the messages before the first one of a partition again, to know the traces that are finished.

Whatever is before the committed offset is finished, or it would have held the offset back. Messages after it
may have more of such traces, which would be judged as if they were whole: they are ignored.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from confluent_kafka import TopicPartition

from otel_evals_gateway._internal.kafka.progress import Partition

_TIMEOUT = 5.0
_MOST_MESSAGES = 1_000_000
"""Messages of a partition that are read again at most."""
_MOST_TRACES = 1_000_000
"""Finished traces that are known at most; the oldest are forgotten first."""

Place = Literal["before", "new", "again"]


class LookBack:
    """Positions a consumer, and knows the finished traces of the assigned partitions.

    Args:
        consumer: of the partitions.
        seconds: by topic: for how long messages before the first one matter.
    """

    def __init__(self, consumer: Any, seconds: Mapping[str, float]) -> None:
        self._consumer = consumer
        self._seconds = seconds
        self._starting: set[Partition] = set()
        self._ends: dict[Partition, int] = {}
        """The committed offset of each partition that is being read from before it."""
        self._expected: dict[Partition, int] = {}
        """The greatest offset of the first message after a seek: others come from before the seek."""
        self._until: dict[Partition, float] = {}
        """The time from which no message of a partition can belong to a trace from before."""
        self._finished: dict[str, Partition] = {}

    def assign(self, places: Collection[Partition]) -> None:
        self._starting.update(places)

    def lose(self, places: Collection[Partition]) -> None:
        for place in places:
            self._starting.discard(place)
            self._ends.pop(place, None)
            self._expected.pop(place, None)
            self._until.pop(place, None)
        self._finished = {trace: place for trace, place in self._finished.items() if place not in places}

    def place_of(self, message: Any, place: Partition, at: float) -> Place:
        """Return where a message is: before the committed offset, new, or to be read again later.

        KafkaException if the brokers do not answer.
        """
        offset = message.offset()
        if offset > self._expected.get(place, offset):
            return "again"  # it was fetched before the seek
        self._expected.pop(place, None)
        if place in self._starting:
            start = self._start(place, offset, at)
            if start < offset:
                self.seek(place, start, offset)
            self._starting.discard(place)
            self._until[place] = at + self._seconds[place[0]]
            if start < offset:
                self._ends[place] = offset
                return "again"
        if offset < self._ends.get(place, 0):
            return "before"
        self._ends.pop(place, None)
        if at > self._until.get(place, at):
            del self._until[place]
            self._finished = {trace: of for trace, of in self._finished.items() if of != place}
        return "new"

    def is_behind(self, place: Partition) -> bool:
        """Return True while messages of a partition are to be read again."""
        return place in self._expected or place in self._ends

    def seek(self, place: Partition, offset: int, most: int) -> None:
        """Read from an offset on; the first message there has an offset of at most `most`."""
        self._consumer.seek(TopicPartition(*place, offset))
        self._expected[place] = most

    def _start(self, place: Partition, offset: int, at: float) -> int:
        """Return the offset from which messages before one at an offset and time matter."""
        since = int(max(0.0, at - self._seconds[place[0]]) * 1000)
        (found,) = self._consumer.offsets_for_times([TopicPartition(*place, since)], timeout=_TIMEOUT)
        # A broker without times answers with the end, although this message is after the time.
        start = found.offset if 0 <= found.offset <= offset else 0
        return int(max(start, offset - _MOST_MESSAGES))

    def remember(self, place: Partition, traces: Collection[str]) -> None:
        """Remember traces of a message that is before the committed offset."""
        self._finished |= dict.fromkeys(traces, place)
        while len(self._finished) > _MOST_TRACES:
            del self._finished[next(iter(self._finished))]

    def finished(self, traces: Collection[str]) -> set[str]:
        """Return those traces that were finished before their partition was assigned."""
        return {trace for trace in traces if trace in self._finished} if self._finished else set()
