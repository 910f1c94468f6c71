"""Cost of the gateway: spans per second of CPU, next to a receiver that only decodes, in the same run.

    OTEL_EVALS_INTEROP=FOLDER python benchmarks/gateway.py [requests] [rounds]

Every request has 513 spans of 171 agent runs, about 1.2 KB each, and unique trace ids. The scorer reads
question and answer. The server runs in a separate process, the senders in this one. The figure is the CPU
time of the server's process from the first request until all runs are judged, delivered and forwarded:
other programs on the machine affect it less than elapsed time. Memory is the process's peak resident size.
The best of the rounds is printed. With the folder that `tests/interop/setup.sh` fills, a Collector is
measured too.

A second table compares destinations: gateways that score every run without one, into a file, and as events
over OTLP, in turns of a tenth of the requests, by the median CPU time per run.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import aiohttp
import grpc
import psutil
from aiohttp import web
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals import Rule, Run
from otel_evals._internal.config.loader import build_config
from otel_evals.destinations import JsonlDestination
from otel_evals.scorers import scorer
from tests.support.traffic import agent_run

RUNS = 171
SPANS = 3 * RUNS
SENDERS = 4
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
TAIL_SECONDS = 1.5
"""Until exporters and the Collector have sent their last batches."""
TEXT = "Where is order A-1001, and when does it arrive? " * 12


@scorer(inline=True, version="1")
def answered_at_all(run: Run) -> float:
    return float(bool(run.input and run.output))


# --- servers ---


async def serve_floor() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        if request.method == "GET":
            return web.json_response({"queue": 0, "open_traces": 0})
        return web.Response(body=take(await request.read()), content_type="application/x-protobuf")

    async def export(body: bytes, _: object) -> bytes:
        return take(body)

    def take(body: bytes) -> bytes:
        if "decode" in sys.argv:
            ExportTraceServiceRequest.FromString(body)
        return b""

    runner = web.ServerRunner(web.Server(handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server = grpc.aio.server()
    service, method = EXPORT[1:].split("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(export)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, handlers)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(runner.addresses[0][1], port, flush=True)
    await asyncio.Event().wait()


async def serve_gateway(mode: str, sample: float, place: str, name: str) -> None:
    """A tap, a gateway inline before the place given, or one on a Kafka there, on the topic named.

    A tap writes scored runs to the file given, or evaluation events to the OTLP endpoint given.
    """
    from otel_evals.sdk.pipeline import Providers, make_missing
    from otel_evals_gateway._internal.service import Gateway

    section: dict[str, Any] = {"http": "127.0.0.1:0", "grpc": "127.0.0.1:0", "quiet": 0.2, "idle": 1.0}
    if mode == "inline":
        section |= {"mode": "inline", "forward": place}
    elif mode == "kafka":
        section["kafka"] = {"brokers": [place], "group": name, "topics": {"traces": name}}
    options: dict[str, Any] = {"metrics": False}  # their cost is that of OpenTelemetry's instruments
    if name and mode != "kafka":
        options["journal"] = name
    to_file = mode == "tap" and place.endswith(".jsonl")
    to_events = mode == "tap" and place.startswith("http")
    if to_events:
        os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = place
        options["evaluation_spans"] = False
    config = build_config(
        [Rule(answered_at_all, sample=sample)],
        [JsonlDestination(place)] if to_file else [],
        gateway=section,
        limits={"queue_size": 100_000, "max_open_traces": 100_000},
        **options,
    )
    service = Gateway(config, make_missing(Providers(), Providers()) if to_events else None)

    def started() -> None:
        gc.freeze()  # as `otel-evals gateway` does
        print(service.ports["http"], service.ports["grpc"], flush=True)

    await service.serve(asyncio.Event(), started)


# --- senders ---


def payloads(count: int) -> list[bytes]:
    """This many requests, each with its own trace ids."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    for _ in range(RUNS):
        agent_run(provider.get_tracer("bench"), question=TEXT, answer=TEXT)
    base = encode_spans(exported.get_finished_spans())
    made = []
    for _ in range(count):
        request = ExportTraceServiceRequest()
        request.CopyFrom(base)
        fresh: dict[bytes, bytes] = {}
        for span in request.resource_spans[0].scope_spans[0].spans:
            span.trace_id = fresh.setdefault(span.trace_id, os.urandom(16))
            for field in ("span_id", "parent_span_id"):
                known = getattr(span, field)
                if known:
                    setattr(span, field, fresh.setdefault(known, os.urandom(8)))
        made.append(request.SerializeToString())
    return made


async def send_http(port: int, bodies: Sequence[bytes], *, settle: bool = True) -> float:
    """Send all, and wait until all is done; returns the seconds of the slowest hundredth of the requests."""
    left, took = iter(bodies), []
    headers = {"Content-Type": "application/x-protobuf"}
    async with aiohttp.ClientSession() as session:

        async def one() -> None:
            for body in left:
                while True:
                    began = time.monotonic()
                    async with session.post(
                        f"http://127.0.0.1:{port}/v1/traces", data=body, headers=headers
                    ) as r:
                        await r.read()
                    took.append(time.monotonic() - began)
                    if r.status == 200:
                        break
                    await asyncio.sleep(0.05)

        await asyncio.gather(*(one() for _ in range(SENDERS)))
    if settle:
        await _settle(port)
    return sorted(took)[int(len(took) * 0.99)]


async def send_grpc(port: int, bodies: Sequence[bytes]) -> None:
    left = iter(bodies)

    async def one() -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            call = channel.unary_unary(EXPORT)
            for body in left:
                await call(body)

    await asyncio.gather(*(one() for _ in range(SENDERS)))


def cpu_of(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


def memory_of(pid: int) -> float:
    """Return the largest resident size, in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


class Server:
    """A server in its own process."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__, "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.ports = [int(port) for port in self.process.stdout.readline().split()]
        assert self.ports, self.process.stderr.read() if self.process.stderr else ""

    @property
    def cpu(self) -> float:
        return cpu_of(self.process.pid)

    @property
    def memory(self) -> float:
        return memory_of(self.process.pid)

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()


def measure(
    name: str, arguments: Sequence[str], requests: int, rounds: int, *, over_grpc: bool = False
) -> None:
    results = []
    for _ in range(rounds):
        server = Server(*arguments)
        warm, bodies = payloads(4), payloads(requests)
        asyncio.run(send_http(server.ports[0], warm))
        cpu, began = server.cpu, time.monotonic()
        if over_grpc:
            asyncio.run(send_grpc(server.ports[1], bodies))
            slow = asyncio.run(_settle(server.ports[0]))
        else:
            slow = asyncio.run(send_http(server.ports[0], bodies))
        took = time.monotonic() - began
        time.sleep(TAIL_SECONDS)
        used = server.cpu - cpu
        results.append((requests * SPANS / used, requests * SPANS / took, slow, server.memory))
        server.stop()
    row(name, *max(results))


def row(name: str, per_cpu: float, per_second: float, slow: float, memory: float) -> None:
    latency = f"{slow * 1e3:.0f}" if slow else "-"
    figures = f"{per_cpu:,.0f} | {per_cpu / 3:,.0f} | {per_second:,.0f} | {latency} | {memory:.0f}"
    print(f"| {name} | {figures} |", flush=True)


def measure_collector(folder: Path, requests: int) -> None:
    """It receives, batches and passes on, which is what inline does with spans that are not sampled."""
    from tests.support.components import Collector, otlp
    from tests.support.servers import free_ports

    port, behind = free_ports(1)[0], Server("floor")
    config = {
        "receivers": {"otlp": otlp(port)},
        "processors": {"batch": {}},
        "exporters": {"otlphttp": {"endpoint": f"http://127.0.0.1:{behind.ports[0]}", "compression": "none"}},
        "service": {
            "pipelines": {
                "traces": {"receivers": ["otlp"], "processors": ["batch"], "exporters": ["otlphttp"]},
            }
        },
    }
    with Collector(folder / "collector", port, config) as collector:
        warm, bodies = payloads(4), payloads(requests)
        asyncio.run(send_http(port, warm, settle=False))
        cpu, began = cpu_of(collector.pid), time.monotonic()
        slow = asyncio.run(send_http(port, bodies, settle=False))
        took = time.monotonic() - began
        time.sleep(TAIL_SECONDS)
        used, spans = cpu_of(collector.pid) - cpu, requests * SPANS
        row("Collector, batch, to OTLP/HTTP", spans / used, spans / took, slow, memory_of(collector.pid))
    behind.stop()


def compare_destinations(folder: Path, forward: str, requests: int, rounds: int) -> None:
    """Print the CPU time of a scored run, by destination, and as a multiple of that without one."""
    places = {"no destination": "", "JSONL": f"{folder}/turns.jsonl", "OTLP events": forward}
    servers = {name: Server("tap", "1", place) for name, place in places.items()}
    costs: dict[str, list[float]] = {name: [] for name in servers}
    for _ in range(rounds + 1):
        for name, server in servers.items():
            bodies, cpu = payloads(requests), server.cpu
            asyncio.run(send_http(server.ports[0], bodies))
            time.sleep(TAIL_SECONDS)
            costs[name].append((server.cpu - cpu) / (requests * RUNS) * 1e6)
    print("\n| tap, 100% sampled | CPU per run, µs | ratio |\n|---|---:|---:|")
    medians = {name: statistics.median(found[1:]) for name, found in costs.items()}  # the first warms up
    for name, median in medians.items():
        print(f"| {name} | {median:.0f} | {median / medians['no destination']:.2f} |", flush=True)
        servers[name].stop()


async def _settle(port: int) -> float:
    async with aiohttp.ClientSession() as session:
        while True:
            async with session.get(f"http://127.0.0.1:{port}/stats") as r:
                stats = await r.json(content_type=None)
            undelivered = any(each["pending"] for each in stats.get("destinations", {}).values())
            if not (stats["queue"] or stats["open_traces"] or undelivered):
                return 0.0
            await asyncio.sleep(0.05)


def main(requests: int = 60, rounds: int = 2) -> None:
    print("| server | spans per CPU second | runs per CPU second | spans/s by the clock | p99, ms | MiB |")
    print("|---|---|---|---|---|---|")
    measure("receiver that answers", ["floor"], requests, rounds)
    measure("receiver that decodes", ["floor", "decode"], requests, rounds)
    measure("receiver that answers, gRPC", ["floor"], requests, rounds, over_grpc=True)
    measure("receiver that decodes, gRPC", ["floor", "decode"], requests, rounds, over_grpc=True)
    for percent in ("0", "0.01", "0.1", "1"):
        measure(f"tap, {float(percent):.0%} sampled", ["tap", percent], requests, rounds)
    behind = Server("floor")
    forward = f"http://127.0.0.1:{behind.ports[0]}"
    measure("tap, 100% sampled, OTLP events", ["tap", "1", forward], requests, rounds)
    measure("tap, 1% sampled, gRPC", ["tap", "0.01"], requests, rounds, over_grpc=True)
    with tempfile.TemporaryDirectory() as folder:
        if "OTEL_EVALS_INTEROP" in os.environ:
            measure_collector(Path(folder), requests)
        measure("tap, 100% sampled, JSONL", ["tap", "1", f"{folder}/scores.jsonl"], requests, rounds)
        measure("tap, 1% sampled, journal", ["tap", "0.01", "", f"{folder}/a"], requests, 1)
        measure("tap, 100% sampled, journal", ["tap", "1", "", f"{folder}/b"], requests, 1)
        measure("inline, nothing sampled", ["inline", "0", forward], requests, rounds)
        measure("inline, nothing sampled, gRPC", ["inline", "0", forward], requests, rounds, over_grpc=True)
        measure("inline, 1% sampled, journal", ["inline", "0.01", forward, f"{folder}/c"], requests, 1)
        measure("inline, 100% sampled, journal", ["inline", "1", forward, f"{folder}/d"], requests, 1)
        compare_destinations(Path(folder), forward, max(1, requests // 10), 2 * rounds + 1)
    behind.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        kind, *rest = sys.argv[2:]
        if kind == "floor":
            asyncio.run(serve_floor())
        else:
            sample, place, name = (*rest, "", "", "")[:3]
            asyncio.run(serve_gateway(kind, float(sample), place, name))
    else:
        main(*[int(value) for value in sys.argv[1:]])
