"""Connects a Kafka source to the engine."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.kafka.offsets import tail
from otel_evals_gateway._internal.options import KafkaOptions
from otel_evals_gateway._internal.receiver.answers import JSON, PROTOBUF, ExportAnswer, RefusedError
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, Signal, decode
from otel_evals_gateway._internal.receiver.selection import trace_of
from otel_evals_gateway._internal.scoring_engine import ScoringEngine
from otel_evals_gateway._internal.tap import Tap, rejection

if TYPE_CHECKING:
    from otel_evals_gateway._internal.kafka.source import KafkaSource

_ROOM = 5_000
"""Items that must fit before more messages are read."""
_BACKLOG = 0.5
"""Fill level from which no message is read."""
_OPEN_SECONDS = 5.0
_PAUSE = 0.01
_METRICS = (
    ("lag", "lag", "{message}", "Messages of the assigned partitions that were not read"),
    ("assigned", "assigned", "{partition}", "Partitions that are assigned to this member of the group"),
    ("uncommitted", "uncommitted", "{message}", "Messages that were read and whose offset is not committed"),
    ("commit.age", "oldest_uncommitted_seconds", "s", "Time since the oldest of those messages was read"),
    (
        "dead_letters",
        "dead_letters",
        "{message}",
        "Messages that were not OTLP, sent to the dead-letter topic",
    ),
)
"""Name, key in the source's counters, unit and description."""


def consume(options: KafkaOptions, tap: Tap, scoring: ScoringEngine) -> KafkaSource:
    """Return a source for the engine; the caller starts it.

    Raises:
        ConfigError: no topic is named, or the extra is missing.
    """
    topics: dict[str, Signal] = {}
    if options.topics.traces:
        topics[options.topics.traces] = "traces"
    if options.topics.logs:
        topics[options.topics.logs] = "logs"
    if not topics:
        raise ConfigError("gateway.kafka.topics", "must name a topic of traces or of logs")
    try:
        from otel_evals_gateway._internal.kafka.source import KafkaSource
    except ModuleNotFoundError as error:
        raise ConfigError(
            "gateway.kafka", f"needs {error.name}: pip install 'otel-evals[gateway,kafka]'"
        ) from error

    thread = scoring.engine.thread

    def handle(signal: Signal, value: bytes, known: Collection[str]) -> Collection[str]:
        content_type = JSON if value[:1] == b"{" else PROTOBUF
        request = decode(ExportRequest(signal, value, content_type), scoring.options.max_decompressed)
        selection = tap.select(request)
        if value and selection.rejected.total() == selection.seen:
            reasons = rejection(selection).message or "it is empty"
            raise RefusedError(ExportAnswer(400, f"no valid {signal} of OTLP: {reasons}"))
        tap.traffic.received(signal, selection)
        for item in selection.items:
            if known and tail(trace_of(item)) in known:
                continue
            while not thread.room:
                time.sleep(_PAUSE)
            thread.put(item)
        return selection.traces

    def room() -> bool:
        pending, gathered = scoring.backlog
        scoring.gatherer.source_waits = pending >= _BACKLOG
        return thread.room > _ROOM and max(pending, gathered) < _BACKLOG

    properties: dict[str, Any] = {
        "bootstrap.servers": ",".join(options.brokers),
        "group.id": options.group,
        "client.id": "otel-evals-gateway",
        **options.properties,
    }
    source = KafkaSource(
        properties,
        topics,
        options.dead_letters,
        handle,
        lambda: scoring.engine.open_traces(_OPEN_SECONDS),
        scoring.forget,
        room,
    )
    _observe(source, scoring.meter)
    return source


def _observe(source: KafkaSource, meter: Meter) -> None:
    for name, stat, unit, description in _METRICS:

        def read(_: CallbackOptions, stat: str = stat) -> list[Observation]:
            return [Observation(source.stats()[stat])]

        counts = name == "dead_letters"
        create = meter.create_observable_counter if counts else meter.create_observable_gauge
        create(f"otel_evals.gateway.kafka.{name}", [read], unit, description)
