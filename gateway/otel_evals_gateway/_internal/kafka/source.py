"""Consumes export requests from Kafka in a consumer group, on its own thread.

Messages are the Collector's `otlp_proto` (or `otlp_json`), with traces keyed by trace id: one member of the
group gets all spans of a trace. The offset committed for a partition is the first one of its unfinished
traces. Messages after it are read again, by this member or another, and scored under the same evaluation ids;
traces that are finished are known by looking back. On a rebalance, members drop incomplete traces; the new
owner scores them whole. Messages that are not OTLP go to the dead-letter topic.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from otel_evals import Config
from otel_evals.model import Loss, Run
from otel_evals.sdk.pipeline import QuietClosing, Source, conversation_digest, encode_run
from otel_evals_gateway._internal.kafka.clock import ReadingClock
from otel_evals_gateway._internal.kafka.closing import MessageClosing
from otel_evals_gateway._internal.kafka.conversation_topic import PASSED, ConversationTopic
from otel_evals_gateway._internal.kafka.look_back import LookBack
from otel_evals_gateway._internal.kafka.messages import Messages
from otel_evals_gateway._internal.kafka.outgoing import Outgoing, Producing, dead_letter
from otel_evals_gateway._internal.kafka.progress import Partition, Progress
from otel_evals_gateway._internal.kafka.settings import consumer_properties, library_log, producer_properties
from otel_evals_gateway._internal.options import KafkaOptions
from otel_evals_gateway._internal.receiver.answers import RefusedError
from otel_evals_gateway._internal.receiver.selection import trace_of
from otel_evals_gateway._internal.tap import Tap

_logger = logging.getLogger(__name__)
_BATCH = 500
_AGAIN_SECONDS = 1.0
_POLL_SECONDS = 0.2
_COMMIT_SECONDS = 1.0
_FLUSH_SECONDS = 5.0
_CAPACITY = 5_000
"""Items that must fit before more messages are read."""
_CROWDED = 0.5
"""Fill level of the open traces from which no message is read."""
_LOOK_SECONDS = 0.5
_LOOK_TIMEOUT = 2.0
_MOST_OUTGOING = 2_000
"""Outgoing runs from which no further trace is closed."""


class KafkaSource(Source):
    """A member of a consumer group, which feeds the tap's engine."""

    def __init__(self, options: KafkaOptions, config: Config) -> None:
        self._options = options
        self._consumer = Consumer(consumer_properties(options), logger=library_log)
        self._producing = Producing(producer_properties(options), library_log)
        self._progress = Progress()
        self._clock = ReadingClock(time.time)
        topics = options.topics
        self._topics = [each for each in (topics.traces, topics.logs, topics.conversations) if each]
        seconds = dict.fromkeys(self._topics, config.max_age)
        if topics.conversations is not None:
            seconds[topics.conversations] = config.conversation_keep
        self._look_back = LookBack(self._consumer, seconds)
        self._events: deque[tuple[Any, ...]] = deque()
        """What the engine reports: runs to pass on, and traces that are done."""
        self._outgoing: Counter[str] = Counter()
        """Runs on their way to the topic of conversations, by trace id."""
        self._assigned: set[Partition] = set()
        self._committed: dict[Partition, int] = {}
        self._ended: dict[Partition, int] = {}
        """Ends of partitions that were reached: the consumer knows no position before the first message."""
        self._paused = False
        self._commit_at = self._look_at = self._stepped_at = 0.0
        self._problems: dict[str, str] = {"brokers": "the brokers were not reached yet"}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otel-evals-kafka", daemon=True)
        self._dead = self._repeated = self._lag = 0

    def closing(self, *args: Any, **options: Any) -> QuietClosing:
        """Return when traces close, of messages and of requests; arguments as of `QuietClosing`."""
        return MessageClosing(self._progress, self._clock, *args, **options)

    def start(self, tap: Tap) -> None:
        """Begin to read."""
        self._tap, self._scoring, self._engine = tap, tap.scoring, tap.scoring.engine
        self._conversations = ConversationTopic(self._options.topics.conversations, tap.scoring)
        self._messages = Messages(self._options.topics, tap, self._consumer)
        self._thread.start()

    def stop_taking(self, seconds: float) -> None:
        """Read no further message; read ones can still be committed."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(max(0.0, seconds))

    def close(self) -> None:
        """Commit finished messages, leave the group, and leave its conversations to the others."""
        if self._thread.ident is None or self._thread.is_alive():
            return
        self._take_events()
        self._producing.flush(_FLUSH_SECONDS)
        self._commit()
        self._consumer.close()  # revokes the partitions

    # --- any thread ---

    @property
    def problem(self) -> str | None:
        """Why messages cannot be read or scored; None if they can."""
        return next(iter(list(self._problems.values())), None)

    def capacity(self) -> float:
        """Return 0 while so many runs are to be passed on that no further trace should close."""
        outgoing = sum(list(self._outgoing.values())) + len(self._events)
        return max(0, _MOST_OUTGOING - outgoing)

    def stats(self) -> dict[str, Any]:
        """Return counts of partitions and messages."""
        return {
            "assigned": len(self._assigned),
            "lag": self._lag,
            "behind_seconds": round(max(0.0, time.time() - (self._clock.now or time.time())), 3),
            "uncommitted": len(self._progress),
            "oldest_uncommitted_seconds": round(self._progress.oldest_age, 3),
            "dead_letters": self._dead,
            "repeated": self._repeated,
        }

    # --- the engine's thread ---

    def pass_on(self, run: Run) -> bool:
        if self._options.topics.conversations is None or not run.conversation_id:
            return False
        self._events.append(("run", run))
        return True

    def done(self, trace_id: str) -> None:
        when = time.monotonic()
        self._events.append(("done", trace_id, when, self._engine.intake.put))

    def passed_done(self, trace_id: str) -> None:
        self.done(f"{PASSED}{trace_id}")

    # --- the consumer's thread ---

    def _subscribe(self) -> None:
        callbacks = {"on_assign": self._assign, "on_revoke": self._revoke, "on_lost": self._lose}
        self._consumer.subscribe(self._topics, **callbacks)

    def _run(self) -> None:
        self._subscribe()
        while not self._stop.is_set():
            try:
                self._step()
            except Exception:
                _logger.exception("consuming from Kafka failed; retrying")
                self._stop.wait(_AGAIN_SECONDS)

    def _step(self) -> None:
        now, before = time.monotonic(), self._stepped_at or time.monotonic()
        self._stepped_at = now
        crowded = self._scoring.usage >= _CROWDED
        if crowded and not self._scoring.gatherer.waits:
            self._clock.skip(now - before)
        self._pause("topics" in self._problems or crowded or self._engine.intake.capacity <= _CAPACITY)
        again: set[Partition] = set()
        for message in self._consumer.consume(_BATCH, _POLL_SECONDS):
            place = message.topic(), message.partition()
            if "topics" in self._problems or place in again:
                continue
            if not self._take(message, place):
                again.add(place)
        self._take_events()
        self._producing.send()
        if time.monotonic() >= self._look_at:
            self._look()
            self._look_at = time.monotonic() + _LOOK_SECONDS
        if time.monotonic() >= self._commit_at:
            self._commit()
            self._commit_at = time.monotonic() + _COMMIT_SECONDS

    def _pause(self, paused: bool) -> None:
        """Pause or resume the partitions; a paused member stays in its group."""
        if paused or self._paused:  # repeatedly while paused: new partitions are not
            change = self._consumer.pause if paused else self._consumer.resume
            change([TopicPartition(topic, number) for topic, number in self._assigned])
        self._paused = paused

    def _take(self, message: Any, place: Partition) -> bool:
        """Take a message; returns False if it and those after it in its partition are to be read again."""
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._ended[place] = message.offset()
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._problems[place[0]] = f"the topic {place[0]} does not exist"
            else:
                _logger.warning("Kafka: %s", error.str())
            return True
        kind, timestamp = message.timestamp()
        at = time.time() if kind == TIMESTAMP_NOT_AVAILABLE else timestamp / 1000
        at = min(at, time.time())
        try:
            where = self._look_back.place_of(message, place, at)
            if where != "again":
                at = self._clock.read(place, at) if place[0] in self._messages.signals else at
                self._remember(message, place) if where == "before" else self._handle(message, place, at)
        except KafkaException as caught:
            _logger.warning("a message of %s cannot be taken yet: %s", place, caught)
            self._read_again(message, place)
            return False
        except Exception as caught:
            self._bury(message, place, at, _reason(caught))
        return where != "again"

    def _read_again(self, message: Any, place: Partition) -> None:
        self._stop.wait(_AGAIN_SECONDS)
        try:
            self._consumer.seek(TopicPartition(*place, message.offset()))
        except KafkaException:  # the assignment has changed, or is about to
            self._consumer.unsubscribe()
            self._subscribe()

    def _remember(self, message: Any, place: Partition) -> None:
        """Note what is finished, from a message before the committed offset."""
        if place[0] == self._conversations.name:
            self._conversations.remember(message, place)
            return
        try:
            self._look_back.remember(place, self._messages.traces_of(message))
        except Exception:  # it is among the dead letters
            _logger.debug("an earlier message cannot be read", exc_info=True)

    def _handle(self, message: Any, place: Partition, at: float) -> None:
        """Give the items of a message to the engine; any error if the message cannot be used."""
        offset = message.offset()
        if place[0] == self._conversations.name:
            self._progress.take(place, offset, self._conversations.take(message, place), at)
            return
        selection = self._messages.select(message)
        traces = selection.traces
        if self._messages.is_spread(message, traces, self._assigned):
            self._problems["topics"] = self._messages.spread_problem(place[0])
            _logger.error("stopped reading: %s", self._problems["topics"])
            return
        finished = self._look_back.finished(traces)
        items = [item for item in selection.items if not finished or trace_of(item) not in finished]
        self._repeated += len(selection.items) - len(items)
        self._tap.traffic.received(self._messages.signals[place[0]], selection)
        self._progress.take(place, offset, traces - finished, at)
        when = time.monotonic()
        if items:
            self._scoring.put_at_once(items, selection.roots)
        self._progress.put(traces - finished, when)

    def _bury(self, message: Any, place: Partition, at: float, reason: str) -> None:
        """Write a message to the dead-letter topic; its offset is not committed before."""
        name = f"dead {message.offset()} of {place}"

        def written(problem: str | None) -> None:
            self._dead += problem is None
            if problem is not None:
                _logger.error(
                    "a message that is %s cannot be a dead letter: %s; it is dropped", reason, problem
                )
            self._progress.finish(name, time.monotonic())

        self._progress.take(place, message.offset(), [name], at)
        self._progress.put([name], time.monotonic())
        self._producing.put(dead_letter(self._options.dead_letters, message, reason, written))

    def _take_events(self) -> None:
        """Take what the engine has reported, and give it the conversations' runs that were read."""
        for traces, when in self._conversations.put():
            self._progress.put(traces, when)
        for _ in range(len(self._events)):
            kind, *event = self._events.popleft()
            if kind == "run":
                self._pass_on(*event)
                continue
            trace_id, when, put = event
            if self._outgoing[trace_id] or self._engine.intake.taken < put:
                self._events.append((kind, *event))  # its runs, or later items, are on their way
            else:
                self._progress.finish(trace_id, when)
                del self._outgoing[trace_id]

    def _pass_on(self, run: Run) -> None:
        topic, traces = self._options.topics.conversations, run.trace_ids or (run.trace_id,)
        ruled_out = self._engine.conversations.rules_out(run)
        try:
            value = encode_run(run, only_ids=ruled_out)
        except Exception:
            _logger.exception("a run of a conversation cannot be passed on")
            self._scoring.lost(Loss("run", "unreadable", run.trace_id))
            return

        def written(problem: str | None) -> None:
            self._outgoing.subtract(traces)
            if problem is not None:
                self._scoring.lost(Loss("run", "too_large_to_pass_on", run.trace_id))

        self._outgoing.update(traces)
        assert topic is not None
        self._producing.put(Outgoing(topic, value, conversation_digest(run).encode(), [], written))

    # --- offsets and assignments ---

    def _commit(self) -> None:
        self._take_events()
        ends = {place: self._progress.offset(place) for place in self._assigned}
        new = {place: end for place, end in ends.items() if end >= 0 and end != self._committed.get(place)}
        if not new:
            return
        try:
            places = [TopicPartition(*place, end) for place, end in new.items()]
            self._consumer.commit(offsets=places, asynchronous=False)
            self._committed |= new
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
        at = {_key(place): self._position(place) for place in self._consumer.position(places)}
        self._lag = sum(max(0, end - max(0, at.get(place, 0))) for place, end in ends.items())
        read = [place for place, end in ends.items() if at.get(place, -1) >= end]
        self._clock.caught_up([place for place in read if place[0] in self._messages.signals], when)

    def _position(self, place: TopicPartition) -> int:
        """Return the next offset to read."""
        return max(int(place.offset), self._ended.get(_key(place), -1))

    def _assign(self, consumer: Any, partitions: Sequence[Any]) -> None:
        places = set(map(_key, partitions))
        self._assigned |= places  # the cooperative protocol adds some
        self._clock.assign(place for place in places if place[0] in self._messages.signals)
        self._look_back.assign(places)
        for topic, _ in places:
            self._problems.pop(topic, None)
        _logger.info("%d Kafka partitions are assigned", len(self._assigned))

    def _revoke(self, _: Any, partitions: Sequence[Any]) -> None:
        self._commit()
        self._lose(_, partitions)

    def _lose(self, _: Any, partitions: Sequence[Any]) -> None:
        gone = set(map(_key, partitions))
        self._assigned -= gone
        self._scoring.forget(self._progress.forget(gone))
        self._conversations.forget(gone)
        self._look_back.lose(gone)
        self._clock.lose(gone)
        for place in gone:
            self._committed.pop(place, None)
            self._ended.pop(place, None)


def _key(place: TopicPartition) -> Partition:
    return place.topic, place.partition


def _reason(error: Exception) -> str:
    if isinstance(error, RefusedError | ValueError):
        return str(error)
    _logger.error("a message cannot be handled", exc_info=error)
    return f"internal error: {type(error).__name__}"
