"""Consumes export requests from Kafka in a consumer group, on its own thread.

Messages are the Collector's `otlp_proto` (or `otlp_json`), with traces keyed by trace id: one member of the
group gets all spans of a trace. An offset is committed once all runs before it are scored and delivered, or
in the store. Uncommitted messages are read again, by this member or another, and scored under the same
evaluation ids; the rest of a finished trace is skipped. On a rebalance, members drop incomplete traces; the
new owner scores them whole. Messages that are not OTLP go to the dead-letter topic.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)

from otel_evals.errors import ConfigError
from otel_evals.sdk.pipeline import IntakeItem
from otel_evals_gateway._internal.kafka.offsets import Commit, Offsets, Partition, Taken, tail
from otel_evals_gateway._internal.kafka.source_clock import SourceClock
from otel_evals_gateway._internal.options import KafkaOptions
from otel_evals_gateway._internal.receiver.answers import JSON, PROTOBUF, ExportAnswer, RefusedError
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal, decode
from otel_evals_gateway._internal.receiver.selection import trace_of
from otel_evals_gateway._internal.tap import Tap, rejection
from otel_evals_gateway._internal.trace_gatherer import SourceClocks, SourceItems

_logger = logging.getLogger(__name__)
_BATCH = 500
_POLL_SECONDS = 0.2
_COMMIT_SECONDS = 1.0
_FLUSH_SECONDS = 5.0
_COMMITTED_SECONDS = 10.0
_LOG_SECONDS = 10.0
_REASON = "otel_evals.reason"
_ROOM = 5_000
"""Items that must fit before more messages are read."""
_BACKLOG = 0.5
"""Fill level of the open traces from which no message is read."""
_OPEN_SECONDS = 5.0
_LOOK_SECONDS = 0.5
_LOOK_TIMEOUT = 2.0
_FETCH_MS = 100
"""Milliseconds that a broker waits for messages; other requests wait as long."""
_PLACES = 100_000
"""Traces whose partition is remembered."""
_PAUSE = 0.01


class _Rarely(logging.Filter):
    """Limits each kind of line to one in ten seconds: librdkafka repeats errors of a missing broker."""

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.args[0] if isinstance(record.args, tuple) and record.args else record.msg
        now = time.monotonic()
        passes = now >= self._next.get(kind, 0.0)
        if passes:
            self._next[kind] = now + _LOG_SECONDS
        return passes


_library = _logger.getChild("librdkafka")
_library.addFilter(_Rarely())


class KafkaSource:
    """A member of a consumer group, which feeds the tap's engine."""

    def __init__(self, options: KafkaOptions, tap: Tap) -> None:
        shared: dict[str, Any] = {
            "bootstrap.servers": ",".join(options.brokers),
            "client.id": "otel-evals-gateway",
            **options.properties,
        }
        if shared.get("group.id") == "":
            raise ConfigError("gateway.kafka.properties", "group.id must not be empty")
        self._producer_properties = {key: each for key, each in shared.items() if key != "group.id"}
        self._producer: Any = None
        self._consumer = Consumer(
            {
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": _FETCH_MS,
                "group.id": options.group,
                **shared,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
            },
            logger=_library,
        )
        topics: dict[str | None, Signal] = {options.topics.traces: "traces", options.topics.logs: "logs"}
        self._topics = {topic: signal for topic, signal in topics.items() if topic}
        self._dead_letters = options.dead_letters
        self._tap = tap
        self._scoring = tap.scoring
        self._engine = tap.scoring.engine
        self._paused = False
        self._offsets = Offsets()
        self._assigned: set[Partition] = set()
        self._commit_at = self._look_at = self._stepped_at = 0.0
        self._clock = SourceClock(time.time)
        self._ended: dict[Partition, int] = {}
        """Ends of partitions that were reached."""
        self._places: OrderedDict[str, Partition] = OrderedDict()
        self._problems: dict[str, str] = {"brokers": "the brokers were not reached yet"}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otel-evals-kafka", daemon=True)
        self._dead = 0
        self._repeated = 0
        self._lag = 0

    def start(self) -> None:
        self._thread.start()

    def stop_taking(self, seconds: float) -> None:
        """Read no further message; read ones can still be committed."""
        self._stop.set()
        self._thread.join(max(0.0, seconds))

    def close(self) -> None:
        """Commit finished messages, and leave the group."""
        if not self._thread.is_alive():
            if self._producer is not None:
                self._producer.flush(_FLUSH_SECONDS)
            self._commit()
            self._consumer.close()

    @property
    def problem(self) -> str | None:
        """Return why messages cannot be read or judged; None if they can. Any thread may call it."""
        return next(iter(list(self._problems.values())), None)

    def stats(self) -> dict[str, Any]:
        """Return counts of partitions and messages. Any thread may call it."""
        return {
            "assigned": len(self._assigned),
            "lag": self._lag,
            "behind_seconds": round(time.time() - self._clock.now, 3) if self._clock.now else 0.0,
            "uncommitted": len(self._offsets),
            "oldest_uncommitted_seconds": round(self._offsets.oldest_age, 3),
            "dead_letters": self._dead,
            "repeated": self._repeated,
        }

    def _run(self) -> None:
        self._consumer.subscribe(
            list(self._topics), on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose
        )
        while not self._stop.is_set():
            try:
                self._step()
            except Exception:
                _logger.exception("consuming from Kafka failed; retrying")
                self._stop.wait(1.0)

    def _step(self) -> None:
        now, before = time.monotonic(), self._stepped_at
        self._stepped_at = now
        crowded = self._scoring.gathered >= _BACKLOG
        if crowded and not self._scoring.gatherer.waits_for_room:
            self._clock.let_go(now - before)
        self._pause("topics" in self._problems or crowded or self._engine.thread.room <= _ROOM)
        for message in self._consumer.consume(_BATCH, _POLL_SECONDS):
            if "topics" not in self._problems:
                self._take(message)
        if time.monotonic() >= self._look_at:
            self._look()
            self._look_at = time.monotonic() + _LOOK_SECONDS
        self._put_clocks()
        if self._producer is not None:
            self._producer.poll(0)
        if time.monotonic() >= self._commit_at:
            self._commit()
            self._commit_at = time.monotonic() + _COMMIT_SECONDS

    def _pause(self, paused: bool) -> None:
        """Pause or resume the partitions; a paused member stays in its group."""
        if paused or self._paused:  # repeatedly while paused: new partitions are not
            change = self._consumer.pause if paused else self._consumer.resume
            change([TopicPartition(topic, number) for topic, number in self._assigned])
        self._paused = paused

    def _take(self, message: Any) -> None:
        error = message.error()
        place = message.topic(), message.partition()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._ended[place] = message.offset()
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._problems[place[0]] = f"the topic {place[0]} does not exist"
            else:
                _logger.warning("Kafka: %s", error.str())
            return
        try:
            known = self._offsets.known
            traces = self._handle(message, place)
            self._offsets.take(place, message.offset(), traces)
            self._repeated += bool(known) and any(tail(each) in known for each in traces)
        except RefusedError as refused:
            self._bury(message, str(refused), self._offsets.take(place, message.offset(), (), pending=True))

    def _handle(self, message: Any, place: Partition) -> Collection[str]:
        """Put the items of a message; return the ids of its traces. RefusedError if it is not OTLP."""
        signal, value = self._topics[place[0]], message.value() or b""
        content_type = JSON if value[:1] == b"{" else PROTOBUF
        request = decode(ExportRequest(signal, value, content_type), self._scoring.options.max_decompressed)
        selection = self._tap.select(request)
        if value and selection.rejected.total() == selection.seen:
            reasons = rejection(selection).message or "it is empty"
            raise RefusedError(ExportAnswer(400, f"not valid OTLP {signal}: {reasons}"))
        traces = selection.traces
        if signal == "traces":
            self._check_key(message, traces, place)
        self._tap.traffic.received(signal, selection)
        known = self._offsets.known
        items = [item for item in selection.items if not known or tail(trace_of(item)) not in known]
        while not self._engine.thread.room:
            time.sleep(_PAUSE)
        kind, timestamp = message.timestamp()
        at = time.time() if kind == TIMESTAMP_NOT_AVAILABLE else timestamp / 1000
        # The spans of a trace without a key may be in any partition of the topic.
        self._put(items, place if message.key() else place[0], self._clock.read(place, at))
        return traces

    def _put(self, items: Sequence[IntakeItem], source: Partition | str, at: float) -> None:
        """Give items to the engine with their source and time."""
        if items:
            arrived = at + time.monotonic() - time.time()
            self._engine.thread.put_all([SourceItems(source, arrived), *items, SourceItems()])  # type: ignore[list-item]

    def _put_clocks(self) -> None:
        behind = time.monotonic() - time.time()
        clocks = SourceClocks({source: at + behind for source, at in self._clock.times.items()})
        self._engine.thread.put_all([clocks])  # type: ignore[list-item]

    def _check_key(self, message: Any, traces: Collection[str], place: Partition) -> None:
        """Stop reading a topic that spreads traces over members of the group: each would judge a part."""
        spread = not message.key()
        for trace in traces:
            spread |= self._places.setdefault(trace, place) != place
            self._places.move_to_end(trace)
        while len(self._places) > _PLACES:
            self._places.popitem(last=False)
        if spread and traces and not self._owns_all(place[0]):
            self._problems["topics"] = (
                f"{place[0]} is not keyed by trace id, and other members read a part of it: set "
                "`partition_traces_by_id: true` in the Collector's Kafka exporter, or run one member"
            )
            _logger.error("stopped reading: %s", self._problems["topics"])
            raise RefusedError(ExportAnswer(400, "not keyed by trace id"))

    def _owns_all(self, topic: str) -> bool:
        found = self._consumer.list_topics(topic, timeout=_LOOK_TIMEOUT).topics[topic].partitions
        return {(topic, number) for number in found} <= self._assigned

    def _bury(self, message: Any, reason: str, taken: Taken) -> None:
        """Write a message to the dead-letter topic; its offset is not committed before."""

        def written(error: Any, _: Any) -> None:
            if error is None:
                taken.pending = False
                self._dead += 1
            elif not self._stop.is_set():
                self._bury(message, reason, taken)

        if self._producer is None:
            self._producer = Producer(self._producer_properties, logger=_library)
        headers = [*(message.headers() or ()), (_REASON, reason.encode())]
        try:
            self._producer.produce(
                self._dead_letters, message.value(), message.key(), headers=headers, on_delivery=written
            )
        except BufferError:
            self._producer.poll(_POLL_SECONDS)
            self._bury(message, reason, taken)

    # --- offsets ---

    def _commit(self) -> None:
        newest = self._offsets.newest()
        open_traces = self._engine.open_traces(_OPEN_SECONDS) if newest else ()
        if open_traces is None:
            return
        commits = self._offsets.done(newest, open_traces)
        if commits:
            places = [
                TopicPartition(topic, number, at.offset, at.metadata)
                for (topic, number), at in commits.items()
            ]
            try:
                self._consumer.commit(offsets=places, asynchronous=False)
            except KafkaException as error:  # after a rebalance the new owner reads them again
                _logger.warning("offsets could not be committed: %s", error)

    def _look(self) -> None:
        """Note how far the partitions are read; their ends are asked of the brokers, which may be away."""
        when, places = time.time(), [TopicPartition(t, n, OFFSET_END) for t, n in self._assigned]
        try:
            if not places:
                self._consumer.list_topics(timeout=_LOOK_TIMEOUT)
            found = self._consumer.offsets_for_times(places, timeout=_LOOK_TIMEOUT) if places else []
        except KafkaException as error:
            self._problems["brokers"] = f"the brokers cannot be reached: {error.args[0].str()}"
            self._clock.lost_sight()
            return
        self._problems.pop("brokers", None)
        ends = {_key(place): place.offset for place in found}
        positions = {_key(place): self._position(place) for place in self._consumer.position(places)}
        self._lag = sum(max(0, end - max(0, positions.get(place, 0))) for place, end in ends.items())
        self._clock.looked(ends, positions, when)

    def _position(self, place: TopicPartition) -> int:
        """Return the next offset to read, which the consumer does not know before the first message."""
        key = _key(place)
        return max(int(place.offset), self._ended.get(key, -1), self._offsets.start_of(key))

    def _assign(self, _: Any, partitions: Sequence[Any]) -> None:
        self._assigned |= set(map(_key, partitions))  # the cooperative protocol adds some
        self._clock.assign(map(_key, partitions))
        for topic, _ in self._assigned:
            self._problems.pop(topic, None)
        try:
            for place in self._consumer.committed(list(partitions), timeout=_COMMITTED_SECONDS):
                commit = Commit.read(place.offset, place.metadata or "")
                self._offsets.read_on(_key(place), commit)
        except KafkaException as error:
            _logger.warning("finished traces are unknown and may be judged in part: %s", error)
        _logger.info("%d Kafka partitions are assigned", len(self._assigned))

    def _revoke(self, _: Any, partitions: Sequence[Any]) -> None:
        self._commit()
        self._lose(_, partitions)

    def _lose(self, _: Any, partitions: Sequence[Any]) -> None:
        gone = set(map(_key, partitions))
        for place in gone:
            self._ended.pop(place, None)
        self._scoring.forget(self._offsets.forget(gone))
        self._assigned -= gone
        self._clock.lose(gone)
        self._put_clocks()


def _key(place: TopicPartition) -> Partition:
    return place.topic, place.partition
