"""Memory and health of a gateway under attack and overload: a process of its own, real clients on loopback.

    python benchmarks/gateway_attacks.py bombs [--requests 1000] [--only gzip]
    python benchmarks/gateway_attacks.py overload [--seconds 300] [--slow]

Overload sends three times the runs that can be judged, and compares the accepted ones with the written.
Each line has the largest resident memory (VmHWM, reset before each attack), the answers, and the median and
the longest time that `/healthz` took meanwhile, as seen by another process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import http.client
import json
import multiprocessing
import os
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import aiohttp
import grpc
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals import ScoredRun
from tests.support.bombs import BOMBS, JSON, PROTOBUF
from tests.support.gateways import GatewayProcess
from tests.support.traffic import agent_run

MIB = 1024 * 1024
Answers = Counter[Any]
SENDERS = 32
TEXT = "Where is order A-1001, and when does it arrive? " * 12
EXPORT = "/opentelemetry.proto.collector.{}Service/Export"
SERVICES = {"traces": "trace.v1.Trace", "logs": "logs.v1.Logs"}


# --- measurements ---


def memory(pid: int, field: str = "VmHWM") -> float:
    """Return a field of a process's status in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


class Prober:
    """Requests `/healthz` on new connections, from a separate process that the senders do not slow down."""

    def __init__(self, port: int) -> None:
        self._pipe, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        context.Process(target=probe, args=(port, theirs), daemon=True).start()

    def restart(self) -> list[tuple[float, int]]:
        """Return the seconds and the status of each request since the last call."""
        self._pipe.send(None)
        return list(self._pipe.recv())


def probe(port: int, pipe: Any) -> None:
    """Send latencies and statuses through the pipe whenever it has something."""
    latencies: list[tuple[float, int]] = []
    while True:
        start = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/healthz")
            status = connection.getresponse().status
        except OSError:
            status = 0
        connection.close()
        latencies.append((time.perf_counter() - start, status))
        try:
            if pipe.poll(0.02):
                pipe.recv()
                pipe.send(latencies)
                latencies = []
        except (EOFError, BrokenPipeError):  # the benchmark has ended
            return


@contextlib.contextmanager
def measured(name: str, gateway: GatewayProcess, prober: Prober, answers: Answers) -> Iterator[None]:
    pid = gateway.process.pid
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    before = memory(pid, "VmRSS")
    prober.restart()
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds = time.perf_counter() - start
        latencies = prober.restart()
        taken = sorted(1000 * each for each, _ in latencies)
        bad = Counter(status for _, status in latencies if status != 200)
        print(
            f"{name:46} {before:5.0f} -> {memory(pid):5.0f} MiB",
            f"healthz {median(taken):4.0f} / {taken[-1]:5.0f} ms {dict(bad) or ''}",
            f"{seconds:5.1f} s  {dict(answers)}",
            sep="  ",
            flush=True,
        )


# --- bombs ---


SIZES = {"64 KiB": 64 * 1024, "1 MiB": MIB, "19 MiB": 19 * MIB, "63 MiB": 63 * MIB}
"""Some 1 MiB bodies fit at once; 19 MiB are almost `max_body`, 63 MiB almost `max_decompressed`."""
PACKS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": lambda data: gzip.compress(data, 1),
    "deflate": lambda data: zlib.compress(data, 1),
    "members": lambda data: b"".join(gzip.compress(data[n : n + MIB], 1) for n in range(0, len(data), MIB)),
}
WAYS = {
    JSON: {"identity": ["1 MiB", "19 MiB"], "gzip": ["63 MiB"], "deflate": ["64 KiB", "1 MiB"]},
    PROTOBUF: {
        "identity": ["1 MiB", "19 MiB"],
        "gzip": ["63 MiB"],
        "deflate": ["64 KiB", "1 MiB"],
        "members": ["63 MiB"],
        "grpc identity": ["19 MiB"],
        "grpc gzip": ["64 KiB", "1 MiB"],
    },
}


async def over_http(
    gateway: GatewayProcess, number: int, path: str, body: bytes, headers: Any
) -> Counter[Any]:
    answers: Counter[Any] = Counter()
    left = iter(range(number))

    async def send(session: aiohttp.ClientSession) -> None:
        for _ in left:
            try:
                async with session.post(gateway.endpoint + path, data=body, headers=headers) as response:
                    await response.read()
                    answers[response.status] += 1
            except aiohttp.ClientError as error:
                answers[type(error).__name__] += 1

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(300)) as session:
        await asyncio.gather(*(send(session) for _ in range(SENDERS)))
    return answers


async def over_grpc(
    gateway: GatewayProcess, number: int, signal: str, body: bytes, pack: str
) -> Counter[Any]:
    answers: Counter[Any] = Counter()
    left = iter(range(number))
    compression = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate}.get(pack)

    async def send(n: int) -> None:
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.n", n), ("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{gateway.ports['grpc']}", options) as channel:
            export = channel.unary_unary(EXPORT.format(SERVICES[signal]))
            for _ in left:
                try:
                    await export(body, timeout=300, compression=compression)
                    answers["OK"] += 1
                except grpc.RpcError as error:
                    answers[error.code().name] += 1

    await asyncio.gather(*(send(n) for n in range(SENDERS)))
    return answers


def bombs(requests: int, only: str) -> None:
    with tempfile.TemporaryDirectory() as folder, gateway_in(folder, grpc="127.0.0.1:0") as gateway:
        prober = Prober(gateway.ports["http"])
        for name, (signal, kind, build) in BOMBS.items():
            for pack, sizes in WAYS[kind].items():
                for size in sizes:
                    title, packing = f"{name}, {size}, {pack}", pack.removeprefix("grpc ")
                    if only not in title:
                        continue
                    answers: Counter[Any] = Counter()
                    body = build(SIZES[size])
                    if pack.startswith("grpc"):
                        sent = over_grpc(gateway, requests, signal, body, packing)
                    else:
                        headers = {"Content-Type": kind}
                        if packing != "identity":
                            headers["Content-Encoding"] = packing.replace("members", "gzip")
                        sent = over_http(gateway, requests, f"/v1/{signal}", PACKS[packing](body), headers)
                    with measured(title, gateway, prober, answers):
                        answers.update(asyncio.run(sent))


# --- overload ---

RUNS = 50
"""Agent runs in each request."""


class Slow:
    """A destination that takes 20 runs a second."""

    name = "slow"

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        await asyncio.sleep(len(batch) / 20)

    async def shutdown(self) -> None: ...


def one_run() -> tuple[bytes, bytes]:
    """Return a request with one run of three spans, and its trace id."""
    exported = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    agent_run(provider.get_tracer("bench"), question=TEXT, answer=TEXT)
    request = encode_spans(exported.get_finished_spans())
    return request.SerializeToString(), request.resource_spans[0].scope_spans[0].spans[0].trace_id


async def send_runs(gateway: GatewayProcess, seconds: float, rate: float, answers: Answers) -> set[str]:
    """Send new runs at a rate (runs a second; infinite: as fast as possible); return the accepted ones."""
    run, old = one_run()
    accepted: set[str] = set()
    start = time.monotonic()
    sent = 0

    async def send(session: aiohttp.ClientSession) -> None:
        nonlocal sent
        while (now := time.monotonic() - start) < seconds:
            if sent >= now * rate:
                await asyncio.sleep(0.02)
                continue
            sent += RUNS
            ids = [os.urandom(16) for _ in range(RUNS)]
            body = b"".join(run.replace(old, new) for new in ids)
            headers = {"Content-Type": PROTOBUF}
            url = gateway.endpoint + "/v1/traces"
            async with session.post(url, data=body, headers=headers) as response:
                await response.read()
            answers[response.status] += RUNS
            if response.status == 200:
                accepted.update(each.hex() for each in ids)
            elif rate == inf:
                await asyncio.sleep(0.05)

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(300)) as session:
        await asyncio.gather(*(send(session) for _ in range(SENDERS)))
    return accepted


def overload(seconds: float, slow: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scores.jsonl"
        destinations = [{"jsonl": {"path": str(path)}}, *(["python:gateway_attacks:Slow"] if slow else [])]
        with gateway_in(folder, destinations=destinations) as gateway:
            start = time.monotonic()
            accepted = asyncio.run(send_runs(gateway, 20, inf, Counter()))
            drained(gateway, path, len(accepted))
            judged = len(accepted) / (time.monotonic() - start)
            print(f"{judged:.0f} runs/s are judged and delivered; {3 * judged:.0f} are sent", flush=True)
            answers: Answers = Counter()
            with measured("overload", gateway, Prober(gateway.ports["http"]), answers):
                accepted |= asyncio.run(send_runs(gateway, seconds, 3 * judged, answers))
                drained(gateway, path, len(accepted))
            written = Counter(json.loads(line)["trace_id"] for line in path.read_text().splitlines())
            missing, twice = accepted - set(written), sum(n > 1 for n in written.values())
            print(f"{len(accepted)} accepted, {len(missing)} not written, {twice} written twice")
            stats = gateway.page("/stats")[1]
            for name in ("runs", "losses", "destinations", "requests", "items"):
                print(f"{name}: {stats[name]}")


def drained(gateway: GatewayProcess, path: Path, most: int) -> None:
    """Wait until all accepted runs are written, or nothing has been for 30 s."""
    lines, since = 0, time.monotonic()
    while lines < most and time.monotonic() - since < 30:
        time.sleep(0.5)
        with path.open("rb") as file:
            found = sum(part.count(b"\n") for part in iter(lambda: file.read(MIB), b""))
        if found > lines:
            lines, since = found, time.monotonic()


@contextlib.contextmanager
def gateway_in(folder: str, destinations: Any = None, **section: Any) -> Iterator[GatewayProcess]:
    options = {} if destinations is None else {"destinations": destinations}
    section = {"quiet": 2.0, "idle": 10.0, **section}
    paths = os.pathsep.join(map(str, [Path(__file__).parent, Path(__file__).parents[1]]))
    with GatewayProcess(Path(folder), ["answered"], section, {"PYTHONPATH": paths}, **options) as gateway:
        yield gateway


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("attack", choices=["bombs", "overload"])
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--only", default="", help="part of the names of bombs")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--slow", action="store_true", help="with a destination that takes 20 runs a second")
    given = parser.parse_args()
    if given.attack == "bombs":
        bombs(given.requests, given.only)
    else:
        overload(given.seconds, given.slow)


if __name__ == "__main__":
    main()
