"""Applications, a Collector, a Kafka broker and gateways in a consumer group, all real; any may die."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals import Rule
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals.scorers import answered
from otel_evals.testing import InMemoryDestination
from otel_evals_exporters.kafka import KafkaDestination
from tests.pipeline.test_gateway import outcomes, run_agent
from tests.support.components import Collector, Kafka, otlp
from tests.support.gateways import GatewayThread
from tests.support.kill_matrix import EAGER, STATIC, matrix
from tests.support.scored import scored_run
from tests.support.scored_files import score_files
from tests.support.servers import free_ports
from tests.support.waits import eventually

kafka = pytest.importorskip("confluent_kafka")
pytestmark = [pytest.mark.interop, pytest.mark.timeout(280)]
_logger = logging.getLogger("kafka")
FEW = 1_500
TRACES = int(os.environ.get("OTEL_EVALS_MANY_TRACES", str(FEW)))
OUTAGE = 8.0 if TRACES == FEW else 60.0
DEAD = "otel_evals_dead_letters"
MEMBER = {
    "session.timeout.ms": "3000",
    "heartbeat.interval.ms": "300",
    "topic.metadata.refresh.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with Kafka(tmp_path_factory.mktemp("components") / "kafka") as server:
        yield server


def exporter(
    broker: Kafka, topic: str, encoding: str = "otlp_proto", compression: str = "none"
) -> dict[str, Any]:
    """The Collector's exporter."""
    return {
        "brokers": [broker.broker],
        "traces": {"topic": topic, "encoding": encoding},
        "partition_traces_by_id": True,
        "producer": {"compression": compression},
        "retry_on_failure": {"initial_interval": "200ms", "max_interval": "1s", "max_elapsed_time": "0s"},
    }


def collector(folder: Path, exporters: Sequence[dict[str, Any]]) -> tuple[Collector, list[str]]:
    """A Collector with a receiver for each exporter, and the receivers' URLs."""
    ports = free_ports(len(exporters))
    names = [str(number) for number in range(len(exporters))]
    config = {
        "receivers": {f"otlp/{n}": otlp(port) for n, port in zip(names, ports, strict=True)},
        "processors": {"batch": {"timeout": "50ms"}},
        "exporters": {f"kafka/{n}": each for n, each in zip(names, exporters, strict=True)},
        "service": {
            "pipelines": {
                f"traces/{n}": {
                    "receivers": [f"otlp/{n}"],
                    "processors": ["batch"],
                    "exporters": [f"kafka/{n}"],
                }
                for n in names
            }
        },
    }
    return Collector(folder, ports[0], config), [f"http://127.0.0.1:{port}" for port in ports]


def section(broker: Kafka, topic: str) -> dict[str, Any]:
    """The section `gateway` of a member."""
    return {
        "kafka": {
            "brokers": [broker.broker],
            "group": topic,
            "topics": {"traces": topic},
            "properties": MEMBER,
        }
    }


def messages(broker: Kafka, topic: str) -> list[Any]:
    """All messages of a topic."""
    consumer = kafka.Consumer({"bootstrap.servers": broker.broker, "group.id": "reader", "logger": _logger})
    places = [
        kafka.TopicPartition(topic, n, 0) for n in consumer.list_topics(topic, 20).topics[topic].partitions
    ]
    count = sum(consumer.get_watermark_offsets(place, timeout=20)[1] for place in places)
    consumer.assign(places)
    found: list[Any] = []
    eventually(
        lambda: (found.extend(m for m in consumer.consume(50, 0.2) if not m.error()), len(found) >= count)[1]
    )
    consumer.close()
    return found


def committed(broker: Kafka, topic: str) -> bool:
    """Whether the group of a topic has committed all of it."""
    consumer = kafka.Consumer({"bootstrap.servers": broker.broker, "group.id": topic, "logger": _logger})
    try:
        partitions = consumer.list_topics(topic, 20).topics[topic].partitions
        places = [kafka.TopicPartition(topic, n) for n in partitions]
        ends = [consumer.get_watermark_offsets(place, timeout=20)[1] for place in places]
        offsets = [max(0, place.offset) for place in consumer.committed(places, timeout=20)]
        return offsets == ends
    except kafka.KafkaException:  # a broker that has just started
        return False
    finally:
        consumer.close()


def test_what_the_collector_writes_is_judged_however_it_is_packed(broker: Kafka, tmp_path: Path) -> None:
    """All compressions and OTLP's encodings; what is no OTLP goes to the dead letters with a reason."""
    topic = "packed"
    packed = [exporter(broker, topic, compression=c) for c in ("none", "gzip", "snappy", "lz4", "zstd")]
    other = [exporter(broker, topic, encoding=e) for e in ("jaeger_proto", "zipkin_json")]
    front, endpoints = collector(tmp_path, [*packed, exporter(broker, topic, "otlp_json"), *other])
    with front, GatewayThread(Rule(answered()), gateway=section(broker, topic)) as gateway:
        for endpoint in endpoints:
            run_agent(endpoint, 2)
        assert len({e.trace_id for e in gateway.evaluations(12)}) == 12
        eventually(lambda: committed(broker, topic))
        written, dead = messages(broker, topic), messages(broker, DEAD)
        assert gateway.service._kafka.stats()["dead_letters"] == len(dead)
    judged = {e.trace_id for e in gateway.scored.evaluations}
    assert len(gateway.scored.evaluations) == len(judged) == 12
    assert len(dead) >= 2 + 8, "zipkin_json has a message for each batch, jaeger_proto one for each span"
    assert all(dict(m.headers())["otel_evals.reason"] for m in dead)
    buried = {m.value() for m in dead}
    whole = [m.value() for m in written if m.value() not in buried]
    (tmp_path / "written.pb").write_bytes(b"".join(value for value in whole if value[:1] != b"{"))
    (tmp_path / "written.jsonl").write_bytes(b"\n".join(value for value in whole if value[:1] == b"{"))
    kept = InMemoryDestination()
    files = [str(tmp_path / name) for name in ("written.pb", "written.jsonl")]
    score_files(files, build_config([Rule(answered())], [kept]))
    assert outcomes(kept.evaluations) == outcomes(gateway.scored.evaluations)
    keys = Counter(m.key().decode() for m in written if m.value() not in buried)
    assert keys.keys() == judged, "the trace id is the key"
    for message in written:
        if message.value() not in buried and message.value()[:1] != b"{":
            request = ExportTraceServiceRequest.FromString(message.value())
            ids = {s.trace_id.hex() for r in request.resource_spans for p in r.scope_spans for s in p.spans}
            assert ids == {message.key().decode()}, "one trace in a message"


def test_scored_runs_outlast_a_broker_that_restarts(broker: Kafka) -> None:
    sent = [scored_run(number) for number in range(40)]

    async def deliver() -> None:
        destination = KafkaDestination([broker.broker], topic="scores")
        fan_out = FanOut([destination], delay=0.0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fan_out.run)
            for number, run in enumerate(sent):
                fan_out.put(run)
                if number == 20:
                    assert await fan_out.force_flush(20.0)
                    await to_thread.run_sync(broker.kill)
                if number == 30:
                    await to_thread.run_sync(broker.start)
            await fan_out.shutdown(60.0)
            tasks.cancel_scope.cancel()
        assert fan_out.stats()["kafka"].exported == len(sent)

    anyio.run(deliver)
    keys = Counter(message.key().decode() for message in messages(broker, "scores"))
    assert set(keys) == {f"{run.run.trace_id}/{run.run.root_span_id}" for run in sent}


@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("properties", [EAGER, STATIC], ids=["eager", "static"])
def test_no_run_is_lost_or_judged_in_part_whoever_is_killed(properties: Any, tmp_path: Path) -> None:
    found = matrix(tmp_path, TRACES, OUTAGE, properties)
    print(found)
    assert found["traces"] == TRACES
    assert (found["lost"], found["in part"], found["several ids"]) == (0, 0, 0), found
    for counts in found["counts"]:
        assert counts["sampled"] == counts["scored"] + counts["pending"], counts
