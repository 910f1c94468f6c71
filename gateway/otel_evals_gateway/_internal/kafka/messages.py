"""Reads messages: OTLP requests whose traces are the messages' keys."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from otel_evals_gateway._internal.kafka.progress import Partition
from otel_evals_gateway._internal.options import KafkaTopics
from otel_evals_gateway._internal.receiver.answers import JSON, PROTOBUF, ExportAnswer, RefusedError
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal, decode
from otel_evals_gateway._internal.receiver.selection import Selection
from otel_evals_gateway._internal.tap import Tap, rejection

_TIMEOUT = 5.0
_TRACE_ID = re.compile("[0-9a-f]{32}")


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

    def traces_of(self, message: Any) -> Collection[str]:
        """Return the ids of the traces in a message, from its key if it is one."""
        trace_id = _trace_id(message.key())
        return self.select(message).traces if trace_id is None else [trace_id]

    def is_spread(self, message: Any, traces: Collection[str], assigned: Collection[Partition]) -> bool:
        """Return True if other members may get other spans of these traces: the key is not their id."""
        topic: str = message.topic()
        if self.signals[topic] != "traces" or set(traces) <= {_trace_id(message.key()) or ""}:
            return False
        if topic not in self._sizes:
            found = self._consumer.list_topics(topic, timeout=_TIMEOUT)
            self._sizes[topic] = len(found.topics[topic].partitions)
        return len([name for name, _ in assigned if name == topic]) < self._sizes[topic]

    def forget_sizes(self) -> None:
        """Ask again how many partitions the topics have."""
        self._sizes.clear()

    def spread_problem(self, topic: str) -> str:
        return (
            f"{topic} has messages whose key is not their trace id, and other members read a part of it; "
            "fix: set `partition_traces_by_id: true` in the Collector's Kafka exporter, or run one member"
        )


def _trace_id(key: bytes | None) -> str | None:
    """Return the trace id that a key is, in hex as the Collector writes it; None for other keys."""
    text = (key or b"").decode("ascii", "replace").lower()
    return text if _TRACE_ID.fullmatch(text) else None
