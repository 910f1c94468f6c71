"""How the Kafka clients are set up, and where their library logs."""

from __future__ import annotations

import logging
import time
from typing import Any

from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.options import KafkaOptions

_LOG_SECONDS = 10.0
_FETCH_MS = 100
"""Milliseconds that a broker waits for messages; other requests wait as long."""
_MESSAGE_BYTES = "10000000"
"""Of a message before it is compressed; the brokers have limits of their own."""
_FROM_THE_START = ("earliest", "smallest", "beginning")


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


library_log = logging.getLogger(f"{__name__}.librdkafka")
library_log.addFilter(_Rarely())


def _shared(options: KafkaOptions) -> dict[str, Any]:
    return {
        "bootstrap.servers": ",".join(options.brokers),
        "client.id": "otel-evals-gateway",
        **options.properties,
    }


def consumer_properties(options: KafkaOptions) -> dict[str, Any]:
    """Return the consumer's properties; ConfigError for those that cannot be used."""
    shared = _shared(options)
    if shared.get("group.id") == "":
        raise ConfigError("gateway.kafka.properties", "group.id must not be empty")
    start = shared.get("auto.offset.reset", "earliest")
    if options.topics.conversations and start not in _FROM_THE_START:
        problem = "auto.offset.reset must be earliest with topics.conversations, which is read again"
        raise ConfigError("gateway.kafka.properties", problem)
    return {
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": _FETCH_MS,
        "group.id": options.group,
        **shared,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
    }


def producer_properties(options: KafkaOptions) -> dict[str, Any]:
    properties = {"compression.type": "gzip", "message.max.bytes": _MESSAGE_BYTES, **_shared(options)}
    return {name: each for name, each in properties.items() if name != "group.id"}
