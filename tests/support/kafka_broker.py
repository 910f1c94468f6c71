"""librdkafka's own broker: it speaks the protocol over TCP, and keeps everything in memory."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.agents import body, recorded
from tests.support.waits import SECONDS

__all__ = ["TOPIC", "committed", "kafka_broker", "produce", "runs", "section"]
TOPIC = "otlp_spans"


@contextmanager
def kafka_broker() -> Iterator[str]:
    """The address of a broker. Its groups do not wait 3 s for further members when they begin."""
    library = ctypes.CDLL(pytest.importorskip("confluent_kafka.cimpl").__file__)
    pointer = ctypes.c_void_p

    def made(name: str, *arguments: object) -> ctypes.c_void_p:
        function = library[name]
        function.restype = pointer
        return pointer(function(*arguments))

    client = made("rd_kafka_new", 0, made("rd_kafka_conf_new"), None, 0)
    cluster = made("rd_kafka_mock_cluster_new", client, 1)
    library.rd_kafka_mock_group_initial_rebalance_delay_ms(cluster, 10)
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    try:
        yield library.rd_kafka_mock_cluster_bootstraps(cluster).decode()
    finally:
        library.rd_kafka_mock_cluster_destroy(cluster)
        library.rd_kafka_destroy(client)


def produce(brokers: str, values: list[tuple[str, bytes]], topic: str = TOPIC) -> None:
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer({"bootstrap.servers": brokers})
    for key, value in values:
        producer.produce(topic, value, key)
    assert producer.flush(SECONDS) == 0


def committed(brokers: str) -> int:
    kafka = pytest.importorskip("confluent_kafka")
    consumer = kafka.Consumer({"bootstrap.servers": brokers, "group.id": "otel-evals"})
    places = [kafka.TopicPartition(TOPIC, n) for n in range(4)]
    found = consumer.committed(places, timeout=20)
    consumer.close()
    return sum(max(0, place.offset) for place in found)


def runs(count: int) -> list[tuple[str, bytes]]:
    """So many runs, a message each, keyed by trace id."""
    made = [recorded() for _ in range(count)]
    return [(f"{spans[0].context.trace_id:032x}", body(spans)) for spans in made]


def section(brokers: str, **more: Any) -> dict[str, Any]:
    properties = {"session.timeout.ms": "3000", "heartbeat.interval.ms": "500"}
    return {"kafka": {"brokers": [brokers], "properties": properties}, **more}
