"""A gateway that consumes from Kafka: librdkafka's own broker, groups of consumers, messages of all kinds."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from otel_evals import Rule
from otel_evals._internal.live.providers import Providers
from otel_evals.errors import ConfigError
from otel_evals.model import Run
from otel_evals.scorers import answered, scorer
from tests.pipeline.test_gateway import body, recorded
from tests.support.gateways import GatewayThread
from tests.support.kafka_broker import TOPIC, committed, produce, runs, section
from tests.support.waits import SECONDS, eventually

kafka = pytest.importorskip("confluent_kafka")
DEAD = "otel_evals_dead_letters"


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, "checkout-service"])
def test_a_topic_that_spreads_traces_over_members_is_not_read(brokers: str, key: str | None) -> None:
    """Without their trace id as the key, each member would judge the part of a trace that it got."""
    with GatewayThread(Rule(answered()), gateway=section(brokers)) as first:
        produce(brokers, runs(1))
        eventually(lambda: committed(brokers) == 1)
        with GatewayThread(Rule(answered()), gateway=section(brokers)) as second:
            eventually(lambda: second.service._kafka.stats()["assigned"] == 2)
            members = (first, second)
            eventually(lambda: all(g.service._readyz()[0] == 200 for g in members))
            producer = kafka.Producer({"bootstrap.servers": brokers})
            for number in range(40):
                producer.produce(TOPIC, body(recorded()), key, partition=number % 4)
            assert producer.flush(SECONDS) == 0
            pages = [eventually(lambda g=g: (p := g.service._readyz())[0] == 503 and p[1]) for g in members]
            assert all("partition_traces_by_id" in page["problem"] for page in pages)
            assert len(first.scored.evaluations) + len(second.scored.evaluations) == 1
            assert [g.service._kafka.stats()["dead_letters"] for g in members] == [0, 0]
    assert committed(brokers) == 1, "another configuration can read them"


@pytest.mark.slow
def test_nothing_is_judged_before_the_messages_before_it_are_known(
    brokers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers do not answer at once, while the rest of a judged run follows the committed offset."""
    calls: list[Any] = []

    class Unanswered(kafka.Consumer):  # type: ignore[misc, name-defined]
        def offsets_for_times(self, places: Any, **options: Any) -> Any:
            if places and places[0].offset >= 0:  # otherwise it looks for the ends
                calls.append(places)
                if len(calls) <= 2:
                    raise kafka.KafkaException(kafka.KafkaError(kafka.KafkaError._TIMED_OUT))
            return super().offsets_for_times(places, **options)

    judged, waiting = recorded(), recorded()
    producer = kafka.Producer({"bootstrap.servers": brokers})

    def write(*parts: Any) -> None:
        for spans in parts:
            producer.produce(TOPIC, body(spans), f"{spans[0].context.trace_id:032x}", partition=0)
            assert producer.flush(SECONDS) == 0

    write(judged[:1], waiting[:1], judged[1:])
    patient = section(brokers) | {"idle": 600.0}
    with GatewayThread(Rule(answered()), gateway=patient) as first:
        first.evaluations(1)
        eventually(lambda: committed(brokers) == 1)
    write(waiting[1:])
    monkeypatch.setattr("otel_evals_gateway._internal.kafka.source.Consumer", Unanswered)
    with GatewayThread(Rule(answered()), gateway=patient) as second:
        eventually(lambda: committed(brokers) == 4)
        assert second.service._kafka.stats()["repeated"] == 2
        assert second.service.scoring.engine.losses() == {}
    assert len(calls) > 2
    assert [len(each.run.operations) for each in second.scored.runs] == [3]
    assert {e.trace_id for e in second.scored.evaluations} == {f"{waiting[0].context.trace_id:032x}"}


def test_hostile_messages_do_not_stop_it(brokers: str) -> None:
    """Keys, values, headers and times that no exporter writes, between good ones."""
    producer, good = kafka.Producer({"bootstrap.servers": brokers, "message.max.bytes": 8_000_000}), runs(12)
    trace_id, now = good[0][0], int(time.time() * 1000)
    deep = b'{"resourceSpans":' + b"[" * 100_000
    no_span, no_id = ExportTraceServiceRequest(), ExportTraceServiceRequest()
    no_span.resource_spans.add().scope_spans.add()
    no_id.resource_spans.add().scope_spans.add().spans.add(name="chat m")
    hostile: list[dict[str, Any]] = [
        {"key": "a", "value": no_span.SerializeToString()},
        {"key": "b", "value": no_id.SerializeToString()},
        {"key": b"\xff\xfe\x00", "value": b"\x0a\xff\xff\xff\xff\x0f"},
        {"key": b"k" * 900_000, "value": None},
        {"key": None, "value": b""},
        {"key": trace_id.upper(), "value": b"{" * 1_000},
        {"key": bytes.fromhex(trace_id), "value": deep},
        {"key": "g" * 32, "value": b"\x00" * 500_000},
        {
            "key": b"",
            "value": b"[]",
            "headers": [("", b""), ("n" * 30_000, None), ("otel_evals.reason", b"\xff")],
        },
        {"key": trace_id, "value": b"\xff", "headers": [(f"h{number}", b"\x00") for number in range(2_000)]},
        {"key": trace_id, "value": b"x", "timestamp": 1},
        {"key": trace_id, "value": b"y", "timestamp": now + 10**12},
    ]
    for number, (key, value) in enumerate(good):
        producer.produce(TOPIC, value, key)
        if number < len(hostile):
            producer.produce(TOPIC, **hostile[number])
    assert producer.flush(SECONDS) == 0
    metrics = InMemoryMetricReader()
    providers = Providers(meters=MeterProvider([metrics]))
    with GatewayThread(Rule(answered()), gateway=section(brokers), providers=providers) as gateway:
        assert len({e.trace_id for e in gateway.evaluations(12)}) == 12
        eventually(lambda: committed(brokers) == len(good) + len(hostile))
        points = {
            metric.name.rpartition("kafka.")[2]: metric.data.data_points[0].value
            for resource in metrics.get_metrics_data().resource_metrics  # type: ignore[union-attr]
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name.startswith("otel_evals.gateway.kafka.")
        }
        zeros = dict.fromkeys(("lag", "uncommitted", "commit.age"), 0)
        assert points == {"assigned": 4, "dead_letters": len(hostile) - 2, **zeros}, "two are empty"
    with GatewayThread(Rule(answered()), gateway=section(brokers)) as again:
        produce(brokers, runs(1))
        assert len(again.evaluations(1)) == 1


def test_a_single_member_reads_a_topic_without_keys(brokers: str) -> None:
    producer = kafka.Producer({"bootstrap.servers": brokers})
    spans = recorded()
    for number, span in enumerate(spans):
        producer.produce(TOPIC, body([span]), partition=number % 4)
    assert producer.flush(SECONDS) == 0
    with GatewayThread(Rule(answered()), gateway=section(brokers)) as gateway:
        assert len(gateway.evaluations(1)) == 1
        assert gateway.service._readyz()[0] == 200


def test_it_is_not_ready_without_its_brokers() -> None:
    with GatewayThread(Rule(answered()), gateway=section("127.0.0.1:1")) as gateway:
        status, page = gateway.service._readyz()
        assert (status, "reached" in page["problem"]) == (503, True)
        assert gateway.service._healthz()[0] == 200


def test_it_is_ready_once_its_topic_exists(brokers: str) -> None:

    kafka_section = section(brokers)["kafka"] | {"topics": {"traces": "missing"}}
    kafka_section["properties"]["topic.metadata.refresh.interval.ms"] = "500"
    kafka_section["properties"]["allow.auto.create.topics"] = "false"
    with GatewayThread(Rule(answered()), gateway={"kafka": kafka_section}) as gateway:
        eventually(lambda: "missing does not exist" in str(gateway.service._readyz()[1]["problem"]))
        assert (gateway.service._readyz()[0], gateway.service._healthz()[0]) == (503, 200)
        produce(brokers, runs(1), "missing")
        eventually(lambda: gateway.service._readyz()[0] == 200)
        assert len(gateway.evaluations(1)) == 1


@pytest.mark.parametrize("properties", [{"no.such.property": "1"}, {"stats_cb": "1"}, {"group.id": ""}])
def test_properties_that_cannot_be_used_are_an_error_of_the_configuration(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(properties))):
        GatewayThread(
            Rule(answered()), gateway={"kafka": {"brokers": ["127.0.0.1:1"], "properties": properties}}
        ).start()


@pytest.mark.slow
def test_runs_wait_for_a_slow_scorer_and_none_is_dropped(brokers: str) -> None:
    """Far more than the queue has capacity for arrives at once."""

    @scorer(version="1")
    async def slow(run: Run) -> float:
        await asyncio.sleep(0.01)
        return 1.0

    produce(brokers, runs(120))
    with GatewayThread(
        Rule(slow, concurrency=4), gateway=section(brokers), limits={"queue_size": 5}
    ) as gateway:
        assert len(gateway.evaluations(120)) == 120
        counts = gateway.service.scoring.engine.stats().rules["slow"]
        assert (counts.scored, counts.dropped) == (120, {})
        eventually(lambda: committed(brokers) == 120)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_trace_that_goes_to_another_member_is_judged_as_a_whole(brokers: str) -> None:
    """Its first spans came before the other member did, the last one after: nobody judges a part of it."""
    made = [recorded() for _ in range(40)]
    ids = [f"{spans[0].context.trace_id:032x}" for spans in made]
    roots = {(f"{s[-1].context.trace_id:032x}", f"{s[-1].context.span_id:016x}") for s in made}
    waiting = section(brokers) | {"quiet": 0.3, "idle": 4.0}
    with GatewayThread(Rule(answered()), gateway=waiting) as first:
        produce(brokers, [(key, body(spans[:-1])) for key, spans in zip(ids, made, strict=True)])
        eventually(lambda: first.service.scoring.gatherer.usage[0] == 40)
        with GatewayThread(Rule(answered()), gateway=waiting) as second:
            eventually(lambda: second.service._kafka.stats()["assigned"] == 2)
            produce(brokers, [(key, body(spans[-1:])) for key, spans in zip(ids, made, strict=True)])
            judged = (first.scored, second.scored)
            eventually(lambda: len({e.trace_id for d in judged for e in d.evaluations}) == 40)
            eventually(lambda: committed(brokers) == 80)
    assert {(e.trace_id, e.span_id) for d in judged for e in d.evaluations} == roots
    assert all(d.evaluations for d in judged), "both had a share"
    losses = [g.service.scoring.engine.losses() for g in (first, second)]
    assert not [each for each in losses if set(each) - {"span_repeated"}], losses
