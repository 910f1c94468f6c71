"""Kafka workers that are killed, joined and cut off from their broker: which runs are lost or judged in part.

Traces of 3 to 12 spans are written to a topic in messages of one to three spans, keyed by trace id:
shuffled, 5% of the messages twice, and 1% of the traces with a message later than `quiet`. A worker is
killed and started again, a third joins, the broker is killed and comes back after the outage, another worker
is killed, and one is ended as an operator does.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals.model import Run
from otel_evals.scorers import scorer
from tests.support import PYTHONPATH
from tests.support.components import Kafka
from tests.support.gateways import GatewayProcess
from tests.support.waits import eventually

QUIET, IDLE, LATE = 4.0, 20.0, 10.0
SPREAD = 1.5
"""Seconds over which the messages of a trace are written."""
RATE = 170
"""Traces per second."""
TOPIC = "spans"
EAGER = {
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "500",
    "topic.metadata.refresh.interval.ms": "1000",
}
STATIC = EAGER | {
    "partition.assignment.strategy": "cooperative-sticky",
    "group.instance.id": "worker-{number}",
}
"""Properties of the workers, by their number."""
KINDS = ("execute_tool", "chat", "invoke_agent")


@scorer(inline=True, version="1")
def whole(run: Run) -> float:
    """1 if the run has as many spans as its root says."""
    said = run.input_messages[0].text if run.input_messages else ""
    return float(said == str(len(run.operations)))


def trace(trace_id: bytes, now: int, rng: random.Random) -> list[Any]:
    """Return the spans of a trace, as they end: the agent, which says how many they are, is the last."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    count, root = rng.randint(3, 12), rng.randbytes(8)
    for number in range(1, count + 1):
        is_root = number == count
        kind = "invoke_agent" if is_root else KINDS[number % 3]
        span = spans.add(
            trace_id=trace_id, span_id=root if is_root else rng.randbytes(8), name=kind, flags=0x101
        )
        span.start_time_unix_nano = now + (0 if is_root else number)
        span.end_time_unix_nano = now + (count + 1 if is_root else number + 1)
        span.attributes.add(key="gen_ai.operation.name").value.string_value = kind
        if is_root:
            said = [{"role": "user", "parts": [{"type": "text", "content": str(count)}]}]
            span.attributes.add(key="gen_ai.input.messages").value.string_value = json.dumps(said)
        else:
            span.parent_span_id = root
    return list(spans)


def writes(traces: int, rng: random.Random) -> tuple[list[tuple[float, str, bytes]], set[str]]:
    """Return messages in the order of their times, and the ids of the traces with a late one."""
    made, late, now = [], set(), time.time_ns()
    for number in range(traces):
        trace_id = rng.randbytes(16)
        begin = number / RATE
        spans = trace(trace_id, now + int(begin * 1e9), rng)
        parts = []
        while spans:
            count = rng.randint(1, 3)
            parts.append(spans[:count])
            spans = spans[count:]
        is_late = rng.random() < 0.01 and len(parts) > 1
        if is_late:
            late.add(trace_id.hex())
        delayed = rng.randrange(len(parts)) if is_late else None
        for index, part in enumerate(parts):
            request = ExportTraceServiceRequest()
            request.resource_spans.add().scope_spans.add().spans.extend(part)
            message = trace_id.hex(), request.SerializeToString()
            at = begin + rng.random() * SPREAD
            made.append((at + (LATE + QUIET if index == delayed else 0.0), *message))
            if rng.random() < 0.05:
                made.append((at + rng.random() * SPREAD, *message))
    return sorted(made), late


class Writer(threading.Thread):
    """Writes messages at their times; they wait in the producer while the broker is away."""

    def __init__(self, broker: str, messages: list[tuple[float, str, bytes]]) -> None:
        super().__init__()
        self._messages = messages
        self.failed = 0
        """Messages that the broker does not have."""
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": broker,
                "enable.idempotence": True,
                "delivery.timeout.ms": 600_000,
                "queue.buffering.max.messages": 1_000_000,
            }
        )

    def run(self) -> None:
        began = time.monotonic()
        for at, key, value in self._messages:
            time.sleep(max(0.0, began + at - time.monotonic()))
            self._producer.produce(TOPIC, value, key, on_delivery=self._written)
            self._producer.poll(0)
        assert self._producer.flush(600) == 0

    def _written(self, error: Any, _: Any) -> None:
        self.failed += error is not None


def workers(folder: Path, broker: str, properties: dict[str, str]) -> Iterator[GatewayProcess]:
    """Return three workers, not started."""
    for number in range(3):
        own = folder / f"worker-{number}"
        own.mkdir()
        kafka = {
            "brokers": [broker],
            "group": "matrix",
            "topics": {"traces": TOPIC},
            "properties": {name: each.format(number=number) for name, each in properties.items()},
        }
        section = {"quiet": QUIET, "idle": IDLE, "kafka": kafka}
        rules = ["python:tests.support.kill_matrix:whole"]
        yield GatewayProcess(own, rules, section, {"PYTHONPATH": PYTHONPATH}, metrics=False)


def committed(broker: str) -> bool:
    """Return True if the group has committed the whole topic."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker, "group.id": "matrix"})
    try:
        numbers = consumer.list_topics(TOPIC, 20).topics[TOPIC].partitions
        places = [confluent_kafka.TopicPartition(TOPIC, number) for number in numbers]
        ends = [consumer.get_watermark_offsets(place, timeout=20)[1] for place in places]
        return [max(0, place.offset) for place in consumer.committed(places, timeout=20)] == ends
    except confluent_kafka.KafkaException:
        return False
    finally:
        consumer.close()


def matrix(folder: Path, traces: int, outage: float, properties: dict[str, str]) -> dict[str, Any]:
    """Write the traces while workers and the broker come and go; return the verdict."""
    with Kafka(folder / "kafka") as broker:
        first, second, third = members = list(workers(folder, broker.broker, properties))
        admin = AdminClient({"bootstrap.servers": broker.broker})
        admin.create_topics([NewTopic(TOPIC, 6, 1)])[TOPIC].result(60)
        with ThreadPoolExecutor() as pool:
            list(pool.map(GatewayProcess.start, (first, second)))
        messages, late = writes(traces, random.Random(7))  # they begin now
        sent = {key for _, key, _ in messages}
        step = messages[-1][0] / 8
        writer = Writer(broker.broker, messages)
        writer.start()
        time.sleep(step)
        first.kill()
        time.sleep(step)
        first.start()
        time.sleep(step)
        third.start()
        time.sleep(step)
        broker.kill()
        time.sleep(outage)
        broker.start()
        time.sleep(step)
        second.kill()
        time.sleep(step / 2)
        assert first.stop() == 0
        first.start()
        writer.join()
        assert writer.failed == 0
        eventually(lambda: {r["trace_id"] for m in members for r in m.records()} >= sent, seconds=300)
        eventually(lambda: committed(broker.broker), seconds=300)
        records = [record for member in members for record in member.records()]
        stats = [member.page("/stats")[1] for member in (first, third)]
        assert [member.stop() for member in (first, third)] == [0, 0]
    counts = [counts for each in stats for counts in each["rules"].values()]
    losses = [each["losses"] for each in stats]
    return verdict(sent, late, records) | {"losses": losses, "counts": counts}


def verdict(sent: set[str], late: set[str], records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many traces were lost, judged in part, or judged twice under several ids.

    A run whose last message came later than `quiet` is judged without it, and never again.
    """
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        found[record["trace_id"]] += record["evaluations"]
    parts = {trace_id for trace_id, each in found.items() if {e["value"] for e in each} != {1.0}}
    several = {trace_id for trace_id, each in found.items() if len({e["evaluation_id"] for e in each}) > 1}
    return {
        "traces": len(sent),
        "lost": len(sent - found.keys()),
        "in part": len(parts - late),
        "late": len(late),
        "late, judged without": len(parts & late),
        "judged twice": sum(len(each) > 1 for each in found.values()),
        "several ids": len(several - late),
    }
