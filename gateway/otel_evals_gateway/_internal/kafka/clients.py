"""The Kafka clients of a member: their properties, where their library logs, and what they read and write.

Read messages are OTLP requests whose traces are the messages' keys.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.kafka.progress import Partition
from otel_evals_gateway._internal.options import KafkaOptions, KafkaTopics
from otel_evals_gateway._internal.receiver.answers import JSON, PROTOBUF, ExportAnswer, RefusedError
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal, decode
from otel_evals_gateway._internal.receiver.selection import Selection
from otel_evals_gateway._internal.tap import Tap, rejection

_logger = logging.getLogger(__name__)
_LOG_SECONDS = 10.0
_TIMEOUT = 5.0
_FETCH_MS = 100
"""Milliseconds that a broker waits for messages; other requests wait as long."""
_MESSAGE_BYTES = "10000000"
"""Of a message before it is compressed; the brokers have limits of their own."""
_FOR_GOOD = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG, KafkaError._INVALID_ARG)
"""Errors after which the same message is refused again."""


class _Rarely(logging.Filter):
    """Limits each kind of line to one in ten seconds: librdkafka repeats errors of a missing broker."""

    def __init__(self) -> None:
        super().__init__()
        self._next: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        kind = record.getMessage().partition(" ")[0]
        now = time.monotonic()
        passes = now >= self._next.get(kind, 0.0)
        if passes:
            self._next[kind] = now + _LOG_SECONDS
        return passes


library_log = logging.getLogger(f"{__name__}.librdkafka")
library_log.addFilter(_Rarely())


def client_properties(options: KafkaOptions) -> dict[str, Any]:
    """Return the properties of every client; ConfigError for those that cannot be used."""
    # Commits follow finished traces; librdkafka's own would commit what was only read.
    for name in ("group.id", "enable.auto.commit"):
        if name in options.properties:
            raise ConfigError("gateway.kafka.properties", f"{name} cannot be set; `group` names the group")
    servers = ",".join(options.brokers)
    return {"bootstrap.servers": servers, "client.id": "otel-evals-gateway", **options.properties}


def consumer_properties(options: KafkaOptions) -> dict[str, Any]:
    return {
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": _FETCH_MS,
        **client_properties(options),
        "group.id": options.group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
    }


class DeadLetter(NamedTuple):
    """A message that cannot be used."""

    message: Any
    reason: str
    written: Callable[[str | None], object]
    """Called once it is written, with None, or cannot be, with the error."""


class DeadLetters:
    """Writes dead letters until each is written or refused for good. Used on the consumer's thread."""

    def __init__(self, options: KafkaOptions) -> None:
        written = {"compression.type": "gzip", "message.max.bytes": _MESSAGE_BYTES}
        self._topic = options.dead_letters
        self._properties = {**written, **client_properties(options)}
        self._producer: Any = None
        self._waiting: deque[DeadLetter] = deque()

    def put(self, letter: DeadLetter) -> None:
        self._waiting.append(letter)

    def send(self) -> None:
        """Hand over what waits, and take the brokers' answers."""
        if self._waiting and self._producer is None:
            self._producer = Producer(self._properties, logger=library_log)
        for _ in range(len(self._waiting)):
            letter = self._waiting.popleft()
            value, key = letter.message.value(), letter.message.key()
            headers = {"otel_evals.reason": letter.reason.encode()}
            answered = partial(self._answered, letter)
            try:
                self._producer.produce(self._topic, value, key, headers=headers, on_delivery=answered)
            except BufferError:  # the producer's queue is full
                self._waiting.appendleft(letter)
                break
            except KafkaException as error:
                self._answered(letter, error.args[0])
        if self._producer is not None:
            self._producer.poll(0)

    def flush(self, seconds: float) -> None:
        """Wait until everything is written."""
        self.send()
        if self._producer is not None:
            self._producer.flush(seconds)

    def _answered(self, letter: DeadLetter, error: KafkaError | None, _: object = None) -> None:
        if error is not None and error.code() not in _FOR_GOOD:
            _logger.warning("%s cannot be written yet: %s", self._topic, error.str())
            self._waiting.append(letter)
            return
        letter.written(None if error is None else error.str())


class Messages:
    """Selects the items of messages with the tap's rules. Used on the consumer's thread."""

    def __init__(self, topics: KafkaTopics, tap: Tap, consumer: Any) -> None:
        named: dict[str | None, Signal] = {topics.traces: "traces", topics.logs: "logs"}
        self.signals = {topic: signal for topic, signal in named.items() if topic}
        self._tap = tap
        self._consumer = consumer
        self._sizes: dict[str, int] = {}
        """Number of partitions of each topic."""
        self._max_bytes = tap.scoring.options.max_decompressed

    def select(self, message: Any) -> Selection:
        """Return the items of a message; RefusedError if it is not OTLP."""
        signal, value = self.signals[message.topic()], message.value() or b""
        # Messages have no content type.
        content_type = JSON if value[:1] == b"{" else PROTOBUF
        selection = self._tap.select(decode(ExportRequest(signal, value, content_type), self._max_bytes))
        # Other encodings may be valid protobuf, of which nothing is a span.
        if value and selection.rejected.total() == selection.seen:
            reasons = rejection(selection).message or "it is empty"
            raise RefusedError(ExportAnswer(400, f"not valid OTLP {signal}: {reasons}"))
        return selection

    def is_spread(self, message: Any, traces: Collection[str], assigned: Collection[Partition]) -> bool:
        """Return True if other members may get other spans of these traces: the key is not their id."""
        topic: str = message.topic()
        # The Collector writes the id in hex.
        key = (message.key() or b"").decode("ascii", "replace").lower()
        if self.signals[topic] != "traces" or set(traces) <= {key}:
            return False
        if topic not in self._sizes:
            found = self._consumer.list_topics(topic, timeout=_TIMEOUT)
            self._sizes[topic] = len(found.topics[topic].partitions)
        return len([name for name, _ in assigned if name == topic]) < self._sizes[topic]

    def forget_sizes(self) -> None:
        """Ask again how many partitions the topics have."""
        self._sizes.clear()
