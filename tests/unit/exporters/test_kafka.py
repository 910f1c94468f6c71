"""Scored runs in a Kafka topic, on librdkafka's own broker on loopback."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

import anyio
import pytest

from otel_evals.errors import ConfigError, DestinationError
from otel_evals.model import ScoredRun
from otel_evals_exporters.kafka import KafkaDestination
from tests.support.replacing import replace
from tests.support.scored import scored_run
from tests.support.servers import free_ports

kafka = pytest.importorskip("confluent_kafka")
TOPIC = "otel_evals_scores"


def exported(destination: KafkaDestination, *runs: ScoredRun) -> Any:
    async def export() -> Any:
        try:
            return await destination.export(runs)
        finally:
            await destination.shutdown()

    return anyio.run(export)


def read(brokers: str, count: int) -> dict[str, list[dict[str, Any]]]:
    """Messages of the topic by key."""
    consumer = kafka.Consumer({"bootstrap.servers": brokers, "group.id": "tests"})
    partitions = consumer.list_topics(TOPIC, timeout=10.0).topics[TOPIC].partitions
    consumer.assign([kafka.TopicPartition(TOPIC, number, 0) for number in partitions])
    found: dict[str, list[dict[str, Any]]] = {}
    for message in consumer.consume(count, timeout=20.0):
        assert message.error() is None
        found.setdefault(message.key().decode(), []).append(json.loads(message.value()))
    consumer.close()
    return found


def key_of(scored: ScoredRun) -> str:
    return f"{scored.run.trace_id}/{scored.run.root_span_id}"


def test_a_run_is_one_message_under_the_same_key_each_time(brokers: str) -> None:
    runs = [scored_run(number) for number in range(3)]
    destination = KafkaDestination([brokers])
    assert list(exported(destination, *runs)) == []
    assert list(exported(destination, runs[0])) == []
    found = read(brokers, 4)
    assert {key: len(records) for key, records in found.items()} == {
        key_of(runs[0]): 2,
        key_of(runs[1]): 1,
        key_of(runs[2]): 1,
    }
    first, again = found[key_of(runs[0])]
    assert first == again
    assert first["evaluations"][0]["evaluation_id"] == runs[0].evaluations[0].evaluation_id
    assert first["output"] == runs[0].run.output


def test_without_content_nothing_quotes_the_conversation(brokers: str) -> None:
    run = scored_run(1)
    exported(KafkaDestination([brokers], content=False), run)
    ((record,),) = read(brokers, 1).values()
    assert record["output"] is None
    assert record["evaluations"][0]["explanation"] is None


def test_a_run_that_is_too_large_costs_no_other(brokers: str) -> None:
    small, large = scored_run(1), scored_run(2)
    large = replace(large, run=replace(large.run, output="x" * 2_000_000))
    refused = exported(KafkaDestination([brokers]), small, large)
    assert [each.evaluation for each in refused] == list(large.evaluations)
    assert {(each.error.reason, each.error.retryable) for each in refused} == {("msg_size_too_large", False)}
    assert list(read(brokers, 1)) == [key_of(small)]


def test_a_broker_that_is_away_is_tried_again() -> None:
    (port,) = free_ports(1)
    destination = KafkaDestination([f"127.0.0.1:{port}"], properties={"message.timeout.ms": "300"})
    with pytest.raises(DestinationError) as error:
        exported(destination, scored_run(1))
    assert error.value.retryable


def test_a_forked_child_has_a_producer_of_its_own(brokers: str) -> None:
    destination = KafkaDestination([brokers])
    anyio.run(destination.export, [scored_run(1)])
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        anyio.run(destination.export, [scored_run(2)])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert len(read(brokers, 2)) == 2
    anyio.run(destination.shutdown)  # a child must not find its producer in the garbage


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"brokers": "kafka:9092"}, r"brokers: must be a list of addresses"),
        ({"brokers": []}, r"brokers: must be a list of addresses"),
        (
            {"brokers": ["kafka:9092"], "properties": {"sasl.nonsense": "secret"}},
            r"properties: .*sasl.nonsense",
        ),
    ],
)
def test_mistakes_are_named_when_it_is_built(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as error:
        KafkaDestination(**options)
    assert "secret" not in str(error.value)
