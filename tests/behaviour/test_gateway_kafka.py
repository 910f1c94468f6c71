"""Gateways that read from Kafka: everything is scored, then committed; poison is set aside; members share."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from tests.support.agents import body, recorded
from tests.support.gateway_process import GatewayProcess
from tests.support.kafka_broker import committed, produce, runs, section
from tests.support.waits import eventually

kafka = pytest.importorskip("confluent_kafka")
DEAD = "otel_evals_dead_letters"


def test_what_is_in_the_topic_is_scored_and_committed_and_poison_set_aside(
    brokers: str, tmp_path: Path
) -> None:
    """Protobuf, JSON, a run over two messages in any order; and two messages that are not OTLP."""
    good, spans = runs(10), recorded()
    key, as_json = f"{spans[0].context.trace_id:032x}", recorded()
    parts = [(key, body(spans[2:])), (key, body(spans[:2]))]
    encoded = MessageToJson(encode_spans(as_json)).encode()
    json_key = f"{as_json[0].context.trace_id:032x}"
    produce(brokers, [*good[:5], ("x", b"\xff\xffpoison"), *good[5:], *parts, (json_key, encoded)])
    produce(brokers, [("y", b"{not json")])
    with GatewayProcess(tmp_path, ["answered"], section(brokers)) as gateway:
        wanted = {key, json_key, *(each for each, _ in good)}
        eventually(lambda: {record["trace_id"] for record in gateway.records()} == wanted)
        (whole,) = [record for record in gateway.records() if record["trace_id"] == key]
        assert [call["name"] for call in whole["tool_calls"]] == ["lookup_order"]
        eventually(lambda: committed(brokers) == 15)
        stats = eventually(lambda: gateway.page("/stats")[1]["kafka"], lambda found: not found["uncommitted"])
        assert (stats["lag"], stats["dead_letters"]) == (0, 2)
        assert len(gateway.records()) == 12
    check_dead_letters(brokers, {b"\xff\xffpoison", b"{not json"})


@pytest.mark.slow
def test_a_key_that_names_another_trace_does_not_exempt_it(brokers: str, tmp_path: Path) -> None:
    """The next member reads back which traces are finished: those of messages, not of their keys."""
    (other, first), (key, second) = runs(2)
    for committed_to, trace_id, value in ((1, other, first), (2, key, second)):
        produce(brokers, [(key, value)])
        with GatewayProcess(tmp_path, ["answered"], section(brokers)) as gateway:
            wait_for_run(brokers, gateway, trace_id, committed_to)


def wait_for_run(brokers: str, gateway: GatewayProcess, trace_id: str, committed_to: int) -> None:
    eventually(lambda: trace_id in {record["trace_id"] for record in gateway.records()})
    eventually(lambda: committed(brokers) == committed_to)


def check_dead_letters(brokers: str, values: set[bytes]) -> None:
    consumer = kafka.Consumer({"bootstrap.servers": brokers, "group.id": "dead"})
    consumer.assign([kafka.TopicPartition(DEAD, n, kafka.OFFSET_BEGINNING) for n in range(4)])
    found: list[Any] = []
    eventually(lambda: (found.extend(consumer.consume(10, 0.2)), len(found) >= len(values))[1])
    consumer.close()
    assert {message.value() for message in found} == values
    assert all(dict(message.headers())["otel_evals.reason"] for message in found)


@pytest.mark.slow
def test_a_trace_that_is_open_when_a_member_ends_is_scored_whole_by_the_next(
    brokers: str, tmp_path: Path
) -> None:
    """Its root has arrived, a child has not: judging it at the end would leave the child out."""
    spans = recorded()
    key = f"{spans[0].context.trace_id:032x}"
    produce(brokers, [(key, body(spans[:1] + spans[2:]))])
    slow = section(brokers, quiet=600.0, idle=600.0)
    with GatewayProcess(tmp_path, ["answered"], slow) as first:
        eventually(lambda: first.page("/stats")[1]["kafka"]["uncommitted"] == 1)
        first.stop()
        assert (committed(brokers), first.records()) == (0, [])
    produce(brokers, [(key, body(spans[1:2]))])
    with GatewayProcess(tmp_path, ["answered"], section(brokers)) as second:
        (record,) = eventually(second.records)
        eventually(lambda: committed(brokers) == 2)
    assert (record["trace_id"], [call["name"] for call in record["tool_calls"]]) == (key, ["lookup_order"])


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_a_member_that_is_killed_leaves_its_share_to_the_others(brokers: str, tmp_path: Path) -> None:
    """Repeated evaluations have equal ids."""
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    sent = runs(60)
    produce(brokers, sent[:1])  # the topic exists
    a = GatewayProcess(first, ["answered"], section(brokers))
    with GatewayProcess(second, ["answered"], section(brokers)) as b:
        a.start()
        for start in range(0, 60, 10):
            produce(brokers, sent[start : start + 10])
            time.sleep(0.1)
            if start == 30:
                a.kill()
        wanted = {key for key, _ in sent}
        eventually(lambda: {r["trace_id"] for r in (*a.records(), *b.records())} >= wanted)
        records = [*a.records(), *b.records()]
    ids: dict[str, set[str]] = {}
    for record in records:
        ids.setdefault(record["trace_id"], set()).update(e["evaluation_id"] for e in record["evaluations"])
    assert {len(each) for each in ids.values()} == {1}
