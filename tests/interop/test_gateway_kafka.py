"""Applications, a Collector, a Kafka broker and gateways in a consumer group, all real; any may die."""

from __future__ import annotations

import logging
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals import Rule
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals.destinations import Retry
from otel_evals.scorers import answered
from otel_evals.testing import InMemoryDestination
from otel_evals_exporters.kafka import KafkaDestination
from tests.pipeline.test_gateway import outcomes, run_agent
from tests.support import PYTHONPATH
from tests.support.components import Collector, Kafka, otlp
from tests.support.gateways import GatewayProcess, GatewayThread
from tests.support.kill_matrix import EAGER, STATIC, matrix
from tests.support.scored import scored_run
from tests.support.scored_files import score_files
from tests.support.servers import clean_environment, free_ports
from tests.support.waits import SECONDS, eventually

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

LONG_RUNS = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from tests.support.traffic import agent_run
endpoint, seconds, threads = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
provider = TracerProvider()
exporter = OTLPSpanExporter(endpoint + "/v1/traces")
provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=50))
tracer, end = provider.get_tracer("tests.app"), time.monotonic() + seconds
def some_runs(_):
    while time.monotonic() < end:
        trace_id = agent_run(tracer, during=lambda _: time.sleep(0.7))
        print(f"{trace_id:032x}\\n", end="", flush=True)  # in one write, whoever else writes
with ThreadPoolExecutor(threads) as pool:
    list(pool.map(some_runs, range(threads)))
provider.shutdown()
"""
"""Runs whose first spans are exported long before their last one; prints their trace ids."""


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


def section(broker: Kafka, topic: str, **more: Any) -> dict[str, Any]:
    """The section `gateway` of a member."""
    return {
        "kafka": {
            "brokers": [broker.broker],
            "group": topic,
            "topics": {"traces": topic},
            "properties": MEMBER,
        },
        **more,
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


def long_runs(endpoint: str, seconds: float) -> subprocess.Popen[str]:
    """An application with eight runs at a time."""
    return subprocess.Popen(
        [sys.executable, "-c", LONG_RUNS, endpoint, str(seconds), "8"],
        env=clean_environment() | {"PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        text=True,
    )


def judged_whole(sent: set[str], records: Sequence[dict[str, Any]]) -> None:
    """Every run was judged with all of its spans; what was judged twice has one evaluation id."""
    assert {record["trace_id"] for record in records} == sent
    ids: dict[str, set[str]] = {}
    for record in records:
        assert {e["value"] for e in record["evaluations"]} == {1.0, 0.0}, record
        ids.setdefault(record["trace_id"], set()).update(e["evaluation_id"] for e in record["evaluations"])
    assert {len(each) for each in ids.values()} == {2}


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


def test_workers_come_and_go_and_the_broker_dies(broker: Kafka, tmp_path: Path) -> None:
    """Three members, one killed, one added, the broker killed: every run is judged, whole, under one id."""
    topic = "group"
    members = []
    rules = ["answered", "tool_error_rate"]
    for number in range(4):
        (tmp_path / f"{number}").mkdir()
        whole = section(broker, topic, quiet=8.0, idle=60.0)  # longer than what is sent again needs
        members.append(GatewayProcess(tmp_path / f"{number}", rules, whole, metrics=False))
    front, (endpoint,) = collector(tmp_path / "collector", [exporter(broker, topic)])
    with front:
        with ThreadPoolExecutor() as pool:
            list(pool.map(GatewayProcess.start, members[:3]))
        sending = long_runs(endpoint, 16)
        time.sleep(4)
        members[random.Random(3).randrange(3)].kill()
        time.sleep(3)
        members[3].start()
        time.sleep(3)
        broker.kill()
        broker.start()
        sent = set(sending.communicate(timeout=SECONDS)[0].split())
        assert sending.returncode == 0
        alive = [member for member in members if member.process.poll() is None]
        assert len(alive) == 3
        eventually(lambda: {r["trace_id"] for m in members for r in m.records()} >= sent, seconds=120)
        eventually(lambda: committed(broker, topic))
        stats = [member.page("/stats")[1] for member in alive]
        for member in alive:
            assert member.stop() == 0
    assert len(sent) > 60
    judged_whole(sent, [record for member in members for record in member.records()])
    for each in stats:
        for counts in each["rules"].values():
            assert counts["sampled"] == counts["scored"] + counts["pending"], counts


def test_scored_runs_outlast_a_broker_that_restarts(broker: Kafka) -> None:
    sent = [scored_run(number) for number in range(40)]

    async def deliver() -> None:
        destination = KafkaDestination([broker.broker], topic="scores")
        fan_out = FanOut([destination], delay=0.0, retry=Retry(total=60.0))
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
@pytest.mark.parametrize("protocol", ["eager", "static"][-1 if TRACES == FEW else 0 :])
def test_no_run_is_lost_or_judged_in_part_whoever_is_killed(protocol: str, tmp_path: Path) -> None:
    """The first tests have the eager protocol; here it is only with more traces."""
    properties = {"eager": EAGER, "static": STATIC}[protocol]
    found = matrix(tmp_path, TRACES, OUTAGE, properties)
    print(found)
    assert found["traces"] == TRACES
    assert (found["lost"], found["in part"], found["several ids"]) == (0, 0, 0), found
