"""The partitions that are assigned to this member: how far each is read, and which offset is committed."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from confluent_kafka import OFFSET_END, KafkaException, TopicPartition

from otel_evals_gateway._internal.kafka.clock import ReadingClock
from otel_evals_gateway._internal.kafka.look_back import LookBack
from otel_evals_gateway._internal.kafka.progress import Partition, Progress

_logger = logging.getLogger(__name__)
_TIMEOUT = 2.0


class Partitions:
    """Used on the consumer's thread; any thread may read `assigned` and `lag`.

    Args:
        consumer: of the partitions.
        progress: knows the unfinished traces.
        clock: goes by the messages of the `timed` topics.
        look_back: positions the consumer.
        timed: topics with spans or log records.
    """

    def __init__(
        self,
        consumer: Any,
        progress: Progress,
        clock: ReadingClock,
        look_back: LookBack,
        timed: Collection[str],
    ) -> None:
        self._consumer, self._progress, self._clock = consumer, progress, clock
        self._look_back, self._timed = look_back, timed
        self.assigned: set[Partition] = set()
        self.lag = 0
        """Messages that were not read when `look` was called."""
        self._committed: dict[Partition, int] = {}
        self._ended: dict[Partition, int] = {}
        """Ends that were reached, also without a message."""
        self._paused = False

    def assign(self, places: Collection[Partition]) -> None:
        self.assigned |= set(places)  # the cooperative protocol adds some
        self._clock.assign(place for place in places if place[0] in self._timed)
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
            self._consumer.commit(offsets=places, asynchronous=False)
            self._committed |= new
        except KafkaException as error:  # the next commit includes them, or after a rebalance the new owner's
            _logger.warning("offsets could not be committed yet: %s", error)

    def look(self) -> str | None:
        """Note how far the partitions are read; returns the problem if the brokers do not answer."""
        places = [TopicPartition(*place, OFFSET_END) for place in self.assigned]
        try:
            if not places:
                self._consumer.list_topics(timeout=_TIMEOUT)
            found = self._consumer.offsets_for_times(places, timeout=_TIMEOUT) if places else []
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
