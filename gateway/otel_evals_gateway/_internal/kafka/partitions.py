"""The partitions that are assigned to this member: how far each is read, and which offset is committed.

Whatever is before the committed offset is finished, or it would have held the offset back. Messages after it
may have more of such traces, which would be judged as if they were whole: a new owner first reads back whose
traces these are, and ignores them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any, Literal

from confluent_kafka import OFFSET_END, KafkaException, TopicPartition

from otel_evals_gateway._internal.kafka.clock import ReadingClock
from otel_evals_gateway._internal.kafka.progress import Partition, Progress

_logger = logging.getLogger(__name__)
_TIMEOUT = 2.0
_OFFSET_SECONDS = 5.0
_MOST_MESSAGES = 1_000_000
"""Messages of a partition that are read again at most."""
_MOST_TRACES = 1_000_000
"""Finished traces that are known at most; the oldest are forgotten first."""

Place = Literal["before", "new", "again"]


class LookBack:
    """Positions a consumer, and knows the finished traces of the assigned partitions.

    Args:
        consumer: of the partitions.
        seconds: for how long messages before the first one matter.
    """

    def __init__(self, consumer: Any, seconds: float) -> None:
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
        # The seek has taken effect.
        self._expected.pop(place, None)
        if place in self._starting:
            start = self._start(place, offset, at)
            # Positioned before it is noted: a seek may fail and is tried again with the same message.
            if start < offset:
                self.seek(place, start, offset)
            self._starting.discard(place)
            self._until[place] = at + self._seconds
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
        since = int(max(0.0, at - self._seconds) * 1000)
        (found,) = self._consumer.offsets_for_times([TopicPartition(*place, since)], timeout=_OFFSET_SECONDS)
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
        return self._finished.keys() & traces


class Partitions:
    """Used on the consumer's thread; any thread may read `assigned` and `lag`.

    Args:
        consumer: of the partitions.
        progress: knows the unfinished traces.
        clock: goes by the messages.
        look_back: positions the consumer.
    """

    def __init__(self, consumer: Any, progress: Progress, clock: ReadingClock, look_back: LookBack) -> None:
        self._consumer, self._progress, self._clock = consumer, progress, clock
        self._look_back = look_back
        self.assigned: set[Partition] = set()
        self.lag = 0
        """Messages that were not read when `look` was called."""
        self._committed: dict[Partition, int] = {}
        self._ended: dict[Partition, int] = {}
        """Ends that were reached, also without a message."""
        self._paused = False

    def assign(self, places: Collection[Partition]) -> None:
        self.assigned |= set(places)  # the cooperative protocol adds some
        self._clock.assign(places)
        self._look_back.assign(places)
        _logger.info("%d Kafka partitions are assigned", len(self.assigned))

    def lose(self, places: Collection[Partition]) -> set[str]:
        """Forget partitions that another member has now; returns their unfinished traces."""
        self.assigned -= set(places)
        self._look_back.lose(places)
        self._clock.lose(places)
        for place in places:
            self._committed.pop(place, None)
            self._ended.pop(place, None)
        return self._progress.forget(places)

    def ended(self, place: Partition, offset: int) -> None:
        """Note that all messages of a partition were read."""
        self._ended[place] = offset

    def pause(self, paused: bool) -> None:
        """Pause or resume reading; a paused member stays in its group."""
        if paused or self._paused:  # repeatedly while paused: new partitions are not
            change = self._consumer.pause if paused else self._consumer.resume
            change([TopicPartition(topic, number) for topic, number in self.assigned])
        self._paused = paused

    def commit(self) -> None:
        ends = {place: self._progress.offset(place) for place in self.assigned}
        new = {place: end for place, end in ends.items() if end >= 0 and end != self._committed.get(place)}
        if not new:
            return
        try:
            places = [TopicPartition(*place, end) for place, end in new.items()]
            # Not in the background: on revocation the new owner must begin at these offsets.
            self._consumer.commit(offsets=places, asynchronous=False)
            self._committed |= new
        except KafkaException as error:  # the next commit includes them, or after a rebalance the new owner's
            _logger.warning("offsets could not be committed yet: %s", error)

    def look(self) -> str | None:
        """Note how far the partitions are read; returns the problem if the brokers do not answer."""
        places = [TopicPartition(*place, OFFSET_END) for place in self.assigned]
        try:
            found = []
            if places:
                found = self._consumer.offsets_for_times(places, timeout=_TIMEOUT)
            else:
                self._consumer.list_topics(timeout=_TIMEOUT)
        except KafkaException as error:
            self._clock.lost_sight()
            return f"the brokers cannot be reached: {error.args[0].str()}"
        ends = {key_of(place): int(place.offset) for place in found}
        # Not the consumer's position: it may have delivered messages that are to be read again.
        at = {place: max(self._progress.end(place), self._ended.get(place, -1)) for place in ends}
        self.lag = sum(max(0, end - max(0, at[place])) for place, end in ends.items())
        self._clock.looked([place for place, end in ends.items() if at[place] >= end])
        return None


def key_of(place: TopicPartition) -> Partition:
    return place.topic, place.partition
