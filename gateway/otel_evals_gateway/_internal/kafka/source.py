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
from collections.abc import Sequence
from typing import Any

from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
)

from otel_evals import Config
from otel_evals.sdk.pipeline import QuietClosing
from otel_evals_gateway._internal.kafka.clients import (
    DeadLetter,
    DeadLetters,
    Messages,
    consumer_properties,
    library_log,
)
from otel_evals_gateway._internal.kafka.clock import MessageClosing, ReadingClock
from otel_evals_gateway._internal.kafka.partitions import LookBack, Partitions, key_of
from otel_evals_gateway._internal.kafka.progress import Partition, Progress, Reports
from otel_evals_gateway._internal.options import KafkaOptions
from otel_evals_gateway._internal.receiver.answers import RefusedError
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
_SPREAD = (
    "has messages whose key is not their trace id, and other members read a part of it; fix: set "
    "`partition_traces_by_id: true` in the Collector's Kafka exporter, or run one member"
)


class KafkaSource:
    """A member of a consumer group, which feeds the tap's engine."""

    def __init__(self, options: KafkaOptions, config: Config) -> None:
        self._options = options
        self._consumer = Consumer(consumer_properties(options), logger=library_log)
        self._dead_letters = DeadLetters(options)
        self._progress = Progress()
        self._clock = ReadingClock(time.time)
        self._look_back = LookBack(self._consumer, config.limits.max_age)
        self._partitions = Partitions(self._consumer, self._progress, self._clock, self._look_back)
        self.reports = Reports(self._progress)
        self._commit_at = self._look_at = 0.0
        self._unreached: str | None = "the brokers were not reached yet"
        self._problems: dict[str, str] = {}
        """Of topics by name, and of all messages as `topics`."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otel-evals-kafka", daemon=True)
        self._dead = self._repeated = 0

    def closing(self, *args: Any, **options: Any) -> QuietClosing:
        """Return when traces close, of messages and of requests; arguments as of `QuietClosing`."""
        return MessageClosing(self._progress, self._taken_to, *args, **options)

    def _taken_to(self) -> float:
        intake = self._scoring.engine.intake
        return self._clock.taken_to(intake.taken, intake.waiting)

    def start(self, tap: Tap) -> None:
        """Begin to read."""
        self._tap, self._scoring, self.reports.scoring = tap, tap.scoring, tap.scoring
        self._messages = Messages(self._options.topics, tap, self._consumer)
        self._thread.start()

    def stop_taking(self, seconds: float) -> None:
        """Read no further message; read ones can still be committed."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(max(0.0, seconds))

    def close(self) -> None:
        """Commit finished messages, and leave the group."""
        # Never started, or still in a call: a consumer is used on one thread at a time.
        if self._thread.ident is None or self._thread.is_alive():
            return
        self.reports.handle()
        self._dead_letters.flush(_FLUSH_SECONDS)
        self._commit()
        self._consumer.close()  # revokes the partitions

    # --- any thread ---

    @property
    def problem(self) -> str | None:
        """Why messages cannot be read or scored; None if they can."""
        return self._unreached or next(iter(list(self._problems.values())), None)

    def stats(self) -> dict[str, Any]:
        """Return counts of partitions and messages."""
        return {
            "assigned": len(self._partitions.assigned),
            "lag": self._partitions.lag,
            "uncommitted": len(self._progress),
            "oldest_uncommitted_seconds": round(self._progress.oldest_age, 3),
            "dead_letters": self._dead,
            "repeated": self._repeated,
        }

    # --- the consumer's thread ---

    def _subscribe(self) -> None:
        callbacks = {"on_assign": self._assign, "on_revoke": self._revoke, "on_lost": self._lose}
        self._consumer.subscribe(list(self._messages.signals), **callbacks)

    def _run(self) -> None:
        self._subscribe()
        self._stepped_at = time.monotonic()
        while not self._stop.is_set():
            try:
                self._step()
            except Exception:
                _logger.exception("consuming from Kafka failed; retrying")
                self._stop.wait(_AGAIN_SECONDS)

    def _step(self) -> None:
        now, before = time.monotonic(), self._stepped_at
        self._stepped_at = now
        crowded = self._scoring.usage >= _CROWDED
        if crowded and not self._scoring.gatherer.waits:
            self._clock.skip(now - before)
        # Lag is harmless: what is not read stays in Kafka.
        full = crowded or self._scoring.engine.intake.capacity <= _CAPACITY
        self._partitions.pause(full or "topics" in self._problems)
        for message in self._consumer.consume(_BATCH, _POLL_SECONDS):
            if "topics" not in self._problems:
                self._take(message, (message.topic(), message.partition()))
        self.reports.handle()
        self._dead_letters.send()
        if time.monotonic() >= self._look_at:
            self._unreached = self._partitions.look()
            self._look_at = time.monotonic() + _LOOK_SECONDS
        self._clock.publish(self._scoring.engine.intake.put)
        if time.monotonic() >= self._commit_at:
            self._commit()
            self._commit_at = time.monotonic() + _COMMIT_SECONDS

    def _take(self, message: Any, place: Partition) -> None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                if not self._look_back.is_behind(place):  # it may come from before a seek
                    self._partitions.ended(place, message.offset())
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                self._problems[place[0]] = f"the topic {place[0]} does not exist"
            else:
                _logger.warning("Kafka: %s", error.str())
            return
        kind, timestamp = message.timestamp()
        at = time.time() if kind == TIMESTAMP_NOT_AVAILABLE else timestamp / 1000
        at = min(at, time.time())
        try:
            where = self._look_back.place_of(message, place, at)
            if where != "again":
                at = self._clock.read(place, at)
                self._remember(message, place) if where == "before" else self._handle(message, place, at)
        except KafkaException as caught:
            _logger.warning("a message of %s cannot be taken yet: %s", place, caught)
            self._read_again(message, place)
        except Exception as caught:
            self._bury(message, place, at, _reason(caught))

    def _read_again(self, message: Any, place: Partition) -> None:
        self._stop.wait(_AGAIN_SECONDS)
        try:
            self._look_back.seek(place, message.offset(), message.offset())
        except KafkaException:  # the assignment has changed, or is about to
            self._consumer.unsubscribe()
            self._subscribe()

    def _remember(self, message: Any, place: Partition) -> None:
        """Note what is finished, from a message before the committed offset."""
        try:
            # Not the key, which may name a trace whose spans are in other messages.
            self._look_back.remember(place, self._messages.select(message).traces)
        except Exception:  # it is among the dead letters
            _logger.debug("an earlier message cannot be read", exc_info=True)

    def _handle(self, message: Any, place: Partition, at: float) -> None:
        """Give the items of a message to the engine; any error if the message cannot be used."""
        offset = message.offset()
        selection = self._messages.select(message)
        traces = selection.traces
        if self._messages.is_spread(message, traces, self._partitions.assigned):
            self._problems["topics"] = f"{place[0]} {_SPREAD}"
            _logger.error("stopped reading: %s", self._problems["topics"])
            return
        # These were judged before the partition moved; the rest would be judged as a whole.
        finished = self._look_back.finished(traces)
        pairs = zip(selection.items, selection.trace_ids, strict=True)
        items = [item for item, trace_id in pairs if trace_id not in finished]
        self._repeated += len(selection.items) - len(items)
        self._tap.traffic.received(self._messages.signals[place[0]], selection)
        # Before the items are put: the engine may report a trace as done at once.
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
        self._dead_letters.put(DeadLetter(message, reason, written))

    # --- offsets and assignments ---

    def _commit(self) -> None:
        self.reports.handle()
        self._partitions.commit()

    def _assign(self, _: Any, partitions: Sequence[Any]) -> None:
        places = list(map(key_of, partitions))
        self._partitions.assign(places)
        self._messages.forget_sizes()
        for topic, _number in places:
            self._problems.pop(topic, None)

    def _revoke(self, _: Any, partitions: Sequence[Any]) -> None:
        self._commit()
        self._lose(_, partitions)

    def _lose(self, _: Any, partitions: Sequence[Any]) -> None:
        gone = set(map(key_of, partitions))
        # The new owner reads them whole; scored here too, they would be on a part.
        self._scoring.forget(self._partitions.lose(gone))


def _reason(error: Exception) -> str:
    if isinstance(error, RefusedError | ValueError):
        return str(error)
    _logger.error("a message cannot be handled", exc_info=error)
    return f"internal error: {type(error).__name__}"
