"""Cost of the gateway on a real Kafka, and its behaviour at ten times its load.

    OTEL_EVALS_INTEROP=FOLDER python benchmarks/gateway_components.py [requests]

Needs what `tests/interop/setup.sh` builds. Requests are those of `benchmarks/gateway.py`; on Kafka each of
their traces is a message with the trace id as its key, as the Collector's exporter writes them. Measured is
the CPU time of the servers' processes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import aiohttp
import confluent_kafka
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from gateway import RUNS, SPANS, Server, payloads
from tests.support.components import Kafka

PARTITIONS = 6
GROUP = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "500"}


def row(name: str, *cells: str) -> None:
    print(f"| {name} | " + " | ".join(cells) + " |", flush=True)


# --- Kafka ---


def produce(broker: str, topic: str, bodies: Sequence[bytes]) -> int:
    """Write each trace as a message; returns how many."""
    producer = confluent_kafka.Producer({"bootstrap.servers": broker, "linger.ms": 20})
    count = 0
    for body in bodies:
        traces: dict[bytes, ExportTraceServiceRequest] = {}
        request = ExportTraceServiceRequest.FromString(body)
        (resource,) = request.resource_spans
        for span in resource.scope_spans[0].spans:
            one = traces.get(span.trace_id)
            if one is None:
                one = traces[span.trace_id] = ExportTraceServiceRequest()
                made = one.resource_spans.add()
                made.resource.CopyFrom(resource.resource)
                made.scope_spans.add().scope.CopyFrom(resource.scope_spans[0].scope)
            one.resource_spans[0].scope_spans[0].spans.append(span)
        for trace_id, one in traces.items():
            producer.produce(topic, one.SerializeToString(), key=trace_id.hex())
            count += 1
        producer.flush()
    return count


def committed(broker: str, topic: str) -> bool:
    """Return True if the group has committed the whole topic."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": broker, "group.id": topic})
    try:
        places = [confluent_kafka.TopicPartition(topic, n) for n in range(PARTITIONS)]
        ends = [consumer.get_watermark_offsets(place, timeout=20)[1] for place in places]
        return [max(0, place.offset) for place in consumer.committed(places, timeout=20)] == ends
    finally:
        consumer.close()


def on_kafka(broker: str, sample: str, workers: int, requests: int) -> None:
    """So many workers, which share the partitions before anything is produced."""
    topic = f"spans-{sample.replace('.', '-')}-{workers}"
    bodies = payloads(requests)
    produce(broker, topic, payloads(1))
    servers = [Server("kafka", sample, broker, topic) for _ in range(workers)]
    while not committed(broker, topic):
        time.sleep(0.2)
    time.sleep(8.0)  # until the last worker has its partitions
    before, began = [server.cpu for server in servers], time.monotonic()
    runs = produce(broker, topic, bodies)
    while not committed(broker, topic):
        time.sleep(0.2)
    took = time.monotonic() - began
    used = [server.cpu - earlier for server, earlier in zip(servers, before, strict=True)]
    memory = max(server.memory for server in servers)
    for server in servers:
        server.stop()
    per_cpu = runs / sum(used)
    name = f"Kafka, {float(sample):.0%} sampled, {workers} worker{'s' * (workers > 1)}"
    shares = " + ".join(f"{each:.1f}" for each in used)
    row(name, f"{3 * per_cpu:,.0f}", f"{per_cpu:,.0f}", f"{3 * runs / took:,.0f}", shares, f"{memory:.0f}")


# --- load ---


async def post(
    port: int, bodies: Sequence[bytes], *, pause: float = 0.0, answers: Counter[int] | None = None
) -> list[float]:
    """Send one after the other, at most one every `pause` seconds; the seconds that each took."""
    took, headers = [], {"Content-Type": "application/x-protobuf"}
    async with aiohttp.ClientSession() as session:
        due = time.monotonic()
        for body in bodies:
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            due, began = max(due + pause, time.monotonic()), time.monotonic()
            async with session.post(f"http://127.0.0.1:{port}/v1/traces", data=body, headers=headers) as r:
                await r.read()
            took.append(time.monotonic() - began)
            if answers is not None:
                answers[r.status] += 1
    return took


def half_load(requests: int) -> None:
    """Time that inline adds to a request of unsampled spans, at half of its capacity."""
    behind = Server("floor")
    inline = Server("inline", "0", f"http://127.0.0.1:{behind.ports[0]}")
    bodies = payloads(requests)
    asyncio.run(post(inline.ports[0], bodies[:10]))
    began = time.monotonic()
    asyncio.run(post(inline.ports[0], bodies))
    pause = 2 * (time.monotonic() - began) / requests
    direct = asyncio.run(post(behind.ports[0], bodies, pause=pause))
    through = asyncio.run(post(inline.ports[0], bodies, pause=pause))
    at = int(len(direct) * 0.99)
    behind.stop()
    inline.stop()
    first, second = sorted(direct)[at] * 1e3, sorted(through)[at] * 1e3
    print(
        f"\ninline at half load, {SPANS / pause:,.0f} spans/s: p99 {second:.1f} ms, without it {first:.1f} ms"
    )


def ten_times(seconds: float = 20.0) -> None:
    """A tap that scores everything, at ten times the load that it can judge."""
    server = Server("tap", "1")
    bodies = payloads(8)
    asyncio.run(post(server.ports[0], bodies))
    began, sent, answers = time.monotonic(), 0, Counter[int]()
    while time.monotonic() - began < seconds:
        asyncio.run(post(server.ports[0], payloads(8), answers=answers))
        sent += 8
    with urllib.request.urlopen(f"http://127.0.0.1:{server.ports[0]}/stats") as answer:
        stats: Any = json.load(answer)
    memory = server.memory
    server.stop()
    rate = sent * RUNS / (time.monotonic() - began)
    print(f"\n{rate:,.0f} runs/s for {seconds:g} s at a tap that scores all: largest {memory:.0f} MiB;")
    print(f"answers {dict(answers)}; {json.dumps(stats)[:600]}")


def main(requests: int = 40) -> None:
    os.nice(-5) if os.geteuid() == 0 else None
    print("| server | spans per CPU second | runs per CPU second | spans/s | p99 ms, CPU s | MiB |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Kafka(folder / "kafka", PARTITIONS) as broker:
            for sample, workers in (("0.01", 1), ("0.01", 2), ("1", 1), ("1", 2)):
                on_kafka(broker.broker, sample, workers, requests)
    half_load(5 * requests)
    ten_times()


if __name__ == "__main__":
    main(*[int(value) for value in sys.argv[1:]])
