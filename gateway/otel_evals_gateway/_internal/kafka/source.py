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
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
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
from otel_evals_gateway._internal.kafka.conversation_topic import ConversationTopic
from otel_evals_gateway._internal.kafka.offsets import Commit, Offsets, Partition, Taken
from otel_evals_gateway._internal.kafka.source_clock import SourceClock
from otel_evals_gateway._internal.options import KafkaOptions
from otel_evals_gateway._internal.receiver.answers import JSON, PROTOBUF, ExportAnswer, RefusedError
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal, decode
from otel_evals_gateway._internal.receiver.selection import Selection, trace_of
from otel_evals_gateway._internal.tap import Tap, rejection
from otel_evals_gateway._internal.trace_gatherer import SourceClocks, SourceItems

_logger = logging.getLogger(__name__)
_BATCH = 500
_AGAIN_SECONDS = 1.0
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
_PAUSE = 0.01
_MESSAGE_BYTES = "10000000"
"""Of a message before it is compressed; the brokers have limits of their own."""


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
        producer = {"compression.type": "gzip", "message.max.bytes": _MESSAGE_BYTES, **shared}
        self._producer_properties = {key: each for key, each in producer.items() if key != "group.id"}
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
        # Elsewhere than at the earliest offset, a start that is gone by then would skip messages.
        self._looks_back = shared.get("auto.offset.reset", "earliest") in (
            "earliest",
            "smallest",
            "beginning",
        )
        self._conversations = ConversationTopic(options.topics.conversations, tap.scoring)
        if self._conversations.name and not self._looks_back:
            problem = "auto.offset.reset must be earliest with topics.conversations, which is read again"
            raise ConfigError("gateway.kafka.properties", problem)
        self._cooperative = "cooperative" in shared.get("partition.assignment.strategy", "")
        self._topics = {topic: signal for topic, signal in topics.items() if topic}
        self._dead_letters = options.dead_letters
        self._tap = tap
        self._scoring = tap.scoring
        self._engine = tap.scoring.engine
        self._paused = False
        keep = tap.scoring.config.conversation_keep
        self._offsets = Offsets(conversations={each: keep for each in [self._conversations.name] if each})
        self._assigned: set[Partition] = set()
        self._commit_at = self._look_at = self._stepped_at = 0.0
        self._clock = SourceClock(time.time)
        self._since: dict[Partition, float] = {}
        """The time of the first message that was read of each partition; 0 if it is the partition's first."""
        self._own_offsets: defaultdict[Partition, set[int]] = defaultdict(set)
        """Offsets that this member read from or tried to commit; others read on if the group has another."""
        self._uncommitted: dict[Partition, Commit] = {}
        """Commits that failed."""
        self._ended: dict[Partition, int] = {}
        """Ends of partitions that were reached."""
        self._sizes: dict[str, int] = {}
        """Number of partitions of each topic."""
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
        """Commit finished messages, leave the group, and leave its conversations to the others."""
        left = set(self._assigned)
        if not self._thread.is_alive():
            self._send()
            if self._producer is not None:
                self._producer.flush(_FLUSH_SECONDS)
            self._commit()
            self._consumer.close()
        self._conversations.forget(left)

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
            [*self._topics, *filter(None, [self._conversations.name])],
            on_assign=self._assign,
            on_revoke=self._revoke,
            on_lost=self._lose,
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
        self._conversations.put()
        if time.monotonic() >= self._look_at:
            self._look()
            self._look_at = time.monotonic() + _LOOK_SECONDS
        self._put_clocks()
        self._send()
        if time.monotonic() >= self._commit_at:
            self._commit()
            self._commit_at = time.monotonic() + _COMMIT_SECONDS

    def _send(self) -> None:
        if self._scoring.outbox:
            self._conversations.send(self._producing())
        if self._producer is not None:
            self._producer.poll(0)

    def _producing(self) -> Any:
        if self._producer is None:
            self._producer = Producer(self._producer_properties, logger=_library)
        return self._producer

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
        finished = message.offset() < self._offsets.start_of(place)
        kind, timestamp = message.timestamp()
        at = time.time() if kind == TIMESTAMP_NOT_AVAILABLE else timestamp / 1000
        self._offsets.note_time(place, message.offset(), at)
        self._since.setdefault(place, at if message.offset() else 0.0)
        try:
            traces = self._handle(message, place, at, finished=finished)
        except Exception as caught:
            if not finished:
                taken = self._offsets.take(place, message.offset(), (), pending=True)
                self._bury(message, _reason(caught), taken)
        else:
            if traces is not None:
                self._offsets.take(place, message.offset(), traces)

    def _handle(self, message: Any, place: Partition, at: float, *, finished: bool) -> Collection[str] | None:
        """Put the items of a message; return the trace ids, or None if it is not to be committed.

        Those of finished runs are only remembered. RefusedError if it is not OTLP.
        """
        if place[0] == self._conversations.name:
            read_before = place not in self._ended
            conversation = self._conversations.take(message, place, self._offsets, read_before=read_before)
            return None if finished else [conversation]
        signal, selection = self._topics[place[0]], self._select(message)
        traces = selection.traces
        while not self._engine.thread.room:
            time.sleep(_PAUSE)
        keyed = all(_is_key(message.key(), each) for each in traces)
        # The spans of a trace that is not the key may be in any partition.
        since = self._since[place] if keyed and signal == "traces" else max(self._since.values())
        if finished:
            self._put_finished(place, since, selection.items if selection.claimed else ())
            return None
        if signal == "traces" and not keyed and not self._owns_all(place[0]):
            self._stop_reading(place[0])
            return None
        self._tap.traffic.received(signal, selection)
        items, finished_items = selection.items, []
        if self._offsets.known:
            known = {each for each in traces if self._offsets.judged(place, message.offset(), each)}
            self._repeated += bool(known)
            finished_items = [item for item in items if trace_of(item) in known]
            items = [item for item in items if trace_of(item) not in known]
        self._put_finished(place, since, finished_items)
        source = place if keyed else place[0]
        self._put(SourceItems(source, self._clock.read(place, at) + _since_epoch()), items)
        return traces

    def _put_finished(self, place: Partition, since: float, items: Sequence[IntakeItem]) -> None:
        """Put items of traces that were judged before, by this process or another."""
        self._put(SourceItems(place, since, finished=True), items)

    def _put(self, source: SourceItems, items: Sequence[IntakeItem]) -> None:
        if items:
            self._engine.thread.put_all([source, *items, SourceItems()])  # type: ignore[list-item]

    def _select(self, message: Any) -> Selection:
        signal, value = self._topics[message.topic()], message.value() or b""
        content_type = JSON if value[:1] == b"{" else PROTOBUF
        request = decode(ExportRequest(signal, value, content_type), self._scoring.options.max_decompressed)
        selection = self._tap.select(request)
        if value and selection.rejected.total() == selection.seen:
            reasons = rejection(selection).message or "it is empty"
            raise RefusedError(ExportAnswer(400, f"not valid OTLP {signal}: {reasons}"))
        return selection

    def _put_clocks(self) -> None:
        since = _since_epoch()
        clocks = SourceClocks({source: at + since for source, at in self._clock.times.items()})
        self._engine.thread.put_all([clocks])  # type: ignore[list-item]

    def _stop_reading(self, topic: str) -> None:
        """Stop, as a topic spreads traces over members of the group: each would judge a part."""
        self._problems["topics"] = (
            f"{topic} has messages whose key is not their trace id, and other members read a part of it; "
            "fix: set `partition_traces_by_id: true` in the Collector's Kafka exporter, or run one member"
        )
        _logger.error("stopped reading: %s", self._problems["topics"])

    def _owns_all(self, topic: str) -> bool:
        return sum(name == topic for name, _ in self._assigned) >= self._sizes.get(topic, 1)

    def _bury(self, message: Any, reason: str, taken: Taken) -> None:
        """Write a message to the dead-letter topic; its offset is not committed before."""

        def written(error: Any, _: Any) -> None:
            if error is None:
                taken.pending = False
                self._dead += 1
            elif not self._stop.is_set():
                self._bury(message, reason, taken)

        producer = self._producing()
        headers = [*(message.headers() or ()), (_REASON, reason.encode())]
        try:
            producer.produce(
                self._dead_letters, message.value(), message.key(), headers=headers, on_delivery=written
            )
        except BufferError:
            producer.poll(_POLL_SECONDS)
            self._bury(message, reason, taken)

    # --- offsets ---

    def _commit(self) -> None:
        if not self._conversations.put():
            return
        newest = self._offsets.newest()
        open_traces = self._engine.open_traces(_OPEN_SECONDS) if newest else ()
        if open_traces is None:
            return
        held_back = self._offsets.held_back
        self._uncommitted |= self._offsets.done(newest, open_traces)
        if self._offsets.held_back and not held_back:
            _logger.warning(
                "offsets wait: too many runs have ended behind one that has not; more partitions help"
            )
        places = [TopicPartition(*place, at.offset, at.metadata) for place, at in self._uncommitted.items()]
        for place in places:
            self._own_offsets[_key(place)].add(place.offset)
        try:
            if places:
                self._consumer.commit(offsets=places, asynchronous=False)
                self._own_offsets |= {_key(place): {place.offset} for place in places}
            self._uncommitted.clear()
        except KafkaException as error:  # the next commit includes them, or after a rebalance the new owner's
            _logger.warning("offsets could not be committed yet: %s", error)

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
        self._clock.looked({place: end for place, end in ends.items() if self._timed(place)}, positions, when)

    def _timed(self, place: Partition) -> bool:
        """Return True if traces wait for the messages of a partition."""
        return place[0] in self._topics

    def _position(self, place: TopicPartition) -> int:
        """Return the next offset to read, which the consumer does not know before the first message."""
        key = _key(place)
        return max(int(place.offset), self._ended.get(key, -1), self._offsets.start_of(key))

    def _assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._assigned |= set(map(_key, partitions))  # the cooperative protocol adds some
        self._clock.assign(filter(self._timed, map(_key, partitions)))
        for topic, _ in self._assigned:
            self._problems.pop(topic, None)
        # Without the commits, the rest of runs that another member has judged would be judged as a whole.
        while (commits := self._commits_of(consumer, partitions)) is None:
            if self._stop.wait(_AGAIN_SECONDS):
                return
        for place, commit in commits.items():
            self._offsets.read_on(place, commit)
        gone = {place for place, commit in commits.items() if commit.offset not in self._own_offsets[place]}
        self._scoring.forget_judged(gone | {topic for topic, _ in gone})
        self._own_offsets |= {place: {commit.offset} for place, commit in commits.items()}
        self._start(consumer, commits)
        _logger.info("%d Kafka partitions are assigned", len(self._assigned))

    def _commits_of(self, consumer: Any, partitions: Sequence[Any]) -> dict[Partition, Commit] | None:
        """Return the commits of partitions; None if the brokers do not answer."""
        try:
            for topic in self._topics:
                found = consumer.list_topics(topic, timeout=_COMMITTED_SECONDS)
                self._sizes[topic] = len(found.topics[topic].partitions)
            places = consumer.committed(list(partitions), timeout=_COMMITTED_SECONDS)
            if error := next((each.error for each in places if each.error), None):
                raise KafkaException(error)
        except KafkaException as error:
            self._problems["brokers"] = f"the commits cannot be read: {error.args[0].str()}"
            _logger.warning("%s; trying again", self._problems["brokers"])
            return None
        return {_key(each): Commit.read(each.offset, each.metadata or "") for each in places}

    def _start(self, consumer: Any, commits: Mapping[Partition, Commit]) -> None:
        """Read partitions from before their committed offset, to learn the spans of finished runs."""
        places = [TopicPartition(topic, number, at.back) for (topic, number), at in commits.items()]
        if self._looks_back and any(at.back < at.offset for at in commits.values()):
            (consumer.incremental_assign if self._cooperative else consumer.assign)(places)

    def _revoke(self, _: Any, partitions: Sequence[Any]) -> None:
        self._commit()
        self._lose(_, partitions)

    def _lose(self, _: Any, partitions: Sequence[Any]) -> None:
        gone = set(map(_key, partitions))
        for place in gone:
            self._ended.pop(place, None)
            self._since.pop(place, None)
            self._uncommitted.pop(place, None)
        self._scoring.forget(self._offsets.forget(gone))
        self._conversations.forget(gone)
        self._assigned -= gone
        self._clock.lose(gone)
        self._put_clocks()


def _key(place: TopicPartition) -> Partition:
    return place.topic, place.partition


def _is_key(key: bytes | str | None, trace_id: str) -> bool:
    """Return True for a trace id in bytes or hex."""
    data = key.encode() if isinstance(key, str) else key or b""
    return data in (bytes.fromhex(trace_id), trace_id.encode()) or data.lower() == trace_id.encode()


def _reason(error: Exception) -> str:
    if isinstance(error, RefusedError):
        return str(error)
    _logger.error("a message cannot be handled", exc_info=error)
    return f"internal error: {type(error).__name__}"


def _since_epoch() -> float:
    """Return what to add to a time since the epoch for the same time on the monotonic clock."""
    return time.monotonic() - time.time()
