"""Memory and health of a gateway under attack and overload: a process of its own, real clients on loopback.

    python benchmarks/gateway_attacks.py bombs [--requests 1000] [--only gzip]
    python benchmarks/gateway_attacks.py overload [--seconds 300]
    python benchmarks/gateway_attacks.py connections
    python benchmarks/gateway_attacks.py trace [--spans 50000]

Each line has the largest resident memory (VmHWM, reset before each attack), the answers, and the median and
the longest time that `/healthz` took meanwhile, as seen by another process.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import http.client
import multiprocessing
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import aiohttp
import grpc

from tests.support.bombs import BOMBS, JSON, PROTOBUF
from tests.support.gateways import GatewayProcess

MIB = 1024 * 1024
SENDERS = 32
EXPORT = "/opentelemetry.proto.collector.{}Service/Export"
SERVICES = {"traces": "trace.v1.Trace", "logs": "logs.v1.Logs"}


# --- what is measured ---


def memory(pid: int, field: str = "VmHWM") -> float:
    """Return a field of a process's status in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def probe(port: int, pipe: Any) -> None:
    """Request `/healthz` on new connections until the pipe has something; send the latencies."""
    latencies: list[tuple[float, int]] = []
    while not pipe.poll(0.02):
        start = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", "/healthz")
            status = connection.getresponse().status
        except OSError:
            status = 0
        connection.close()
        if not latencies:
            pipe.send("ready")
        latencies.append((time.perf_counter() - start, status))
    pipe.send(latencies)


@contextlib.contextmanager
def measured(name: str, gateway: GatewayProcess, answers: Counter[Any]) -> Iterator[None]:
    pid = gateway.process.pid
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    before, (ours, theirs) = memory(pid, "VmRSS"), multiprocessing.Pipe()
    prober = multiprocessing.get_context("spawn").Process(target=probe, args=(gateway.ports["http"], theirs))
    prober.start()
    ours.recv()
    start = time.perf_counter()
    try:
        yield
    finally:
        seconds = time.perf_counter() - start
        ours.send(None)
        latencies = ours.recv()
        prober.join()
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


SIZES = {"1 MiB": MIB, "19 MiB": 19 * MIB, "63 MiB": 63 * MIB}
"""Some 1 MiB bodies fit at once; 19 MiB are almost `max_body`, 63 MiB almost `max_decompressed`."""
PACKS: dict[str, Callable[[bytes], bytes]] = {
    "identity": bytes,
    "gzip": lambda data: gzip.compress(data, 1),
    "deflate": lambda data: zlib.compress(data, 1),
    "members": lambda data: b"".join(gzip.compress(data[n : n + MIB], 1) for n in range(0, len(data), MIB)),
}
WAYS = {
    JSON: {"identity": ["1 MiB", "19 MiB"], "gzip": ["63 MiB"], "deflate": ["1 MiB"]},
    PROTOBUF: {
        "identity": ["1 MiB", "19 MiB"],
        "gzip": ["63 MiB"],
        "deflate": ["1 MiB"],
        "members": ["63 MiB"],
        "grpc identity": ["19 MiB"],
        "grpc gzip": ["1 MiB"],
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
                    with measured(title, gateway, answers):
                        answers.update(asyncio.run(sent))


@contextlib.contextmanager
def gateway_in(folder: str, **section: Any) -> Iterator[GatewayProcess]:
    with GatewayProcess(Path(folder), ["answered"], {"quiet": 2.0, "idle": 10.0, **section}) as gateway:
        yield gateway


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("attack", choices=["bombs"])
    parser.add_argument("--requests", type=int, default=1_000)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    bombs(given.requests, given.only)


if __name__ == "__main__":
    main()
