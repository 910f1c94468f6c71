"""A source of spans and log records in Kafka, as the Collector's Kafka exporter writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from otel_evals import Config
from otel_evals.errors import ConfigError
from otel_evals_gateway._internal.options import KafkaOptions

if TYPE_CHECKING:
    from otel_evals_gateway._internal.kafka.source import KafkaSource

_METRICS = (
    ("lag", "lag", "{message}", "Messages of the assigned partitions that were not read"),
    ("assigned", "assigned", "{partition}", "Partitions that are assigned to this member of the group"),
    ("uncommitted", "uncommitted", "{message}", "Messages that were read and whose offset is not committed"),
    ("commit.age", "oldest_uncommitted_seconds", "s", "Time since the oldest of those messages was read"),
    ("dead_letters", "dead_letters", "{message}", "Messages that were sent to the dead-letter topic"),
)
"""Name, key in the source's counters, unit and description."""


def kafka_source(options: KafkaOptions, config: Config) -> KafkaSource:
    """Return a source, not started; ConfigError for properties that librdkafka refuses."""
    from confluent_kafka import KafkaException

    from otel_evals_gateway._internal.kafka.source import KafkaSource

    try:
        return KafkaSource(options, config)
    except KafkaException as error:
        raise ConfigError("gateway.kafka.properties", error.args[0].str()) from error
    except TypeError as error:  # of properties that are functions
        raise ConfigError("gateway.kafka.properties", str(error)) from error


def observe(source: KafkaSource, meter: Meter) -> None:
    """Measure a source."""
    for name, stat, unit, description in _METRICS:

        def read(_: CallbackOptions, stat: str = stat) -> list[Observation]:
            return [Observation(source.stats()[stat])]

        counts = name == "dead_letters"
        create = meter.create_observable_counter if counts else meter.create_observable_gauge
        create(f"otel_evals.gateway.kafka.{name}", [read], unit, description)
