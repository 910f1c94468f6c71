"""A gateway and very many traces of one span each, at once.

Everything is answered as OTLP says, every span is accounted for, memory is bounded, `/healthz` answers all
the while, and the next ordinary run is scored. Figures are printed with -s.
"""

from __future__ import annotations

import http.client
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.pipeline.test_gateway import body, recorded
from tests.support.gateways import GatewayProcess, post
from tests.support.waits import SECONDS, eventually

TRACES = int(os.environ.get("OTEL_EVALS_MANY_TRACES", "50000"))
"""Of one span each."""
REQUEST = 2_000
"""Spans of a request of many traces."""
HEALTH_SECONDS = 5.0
"""In which `/healthz` answers; orchestrators give it a second, on a machine that is not also the sender."""
MIB = 1024 * 1024

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc"),
]


class Spans:
    """Requests of spans that differ in their ids alone, made by patching bytes.

    Args:
        count: of a request.
        operation: what the spans do.
        text: the length of what each of them says.
        parent: of all of them.
    """

    def __init__(self, count: int, operation: str, text: int, parent: bytes = b"") -> None:
        request = ExportTraceServiceRequest()
        block = request.resource_spans.add()
        block.resource.attributes.add(key="service.name").value.string_value = "scale"
        scoped = block.scope_spans.add()
        scoped.scope.name = "app"
        now = time.time_ns()
        for _ in range(count):
            span = scoped.spans.add(trace_id=b"\xaa" * 16, span_id=b"\xbb" * 8, name=f"{operation} m")
            span.parent_span_id = parent
            span.start_time_unix_nano, span.end_time_unix_nano = now - 1_000_000, now
            span.attributes.add(key="gen_ai.operation.name").value.string_value = operation
            message = '[{"role":"assistant","parts":[{"type":"text","content":"%s"}]}]' % ("x" * text)
            span.attributes.add(key="gen_ai.output.messages").value.string_value = message
        self._bytes = bytearray(request.SerializeToString())
        self._traces = [found.start() for found in re.finditer(rb"\xaa{16}", self._bytes)]
        self._spans = [found.start() for found in re.finditer(rb"\xbb{8}", self._bytes)]
        assert len(self._traces) == len(self._spans) == count

    def request(self, first: int, trace: bytes | None = None) -> bytes:
        """With the spans of these numbers and on; each in a trace of its own unless one is given."""
        for number, (at, span) in enumerate(zip(self._traces, self._spans, strict=True), first):
            self._bytes[at : at + 16] = trace or number.to_bytes(16)
            self._bytes[span : span + 8] = number.to_bytes(8)
        return bytes(self._bytes)


class Watch:
    """Asks `/healthz` all the while, and notes how long it took and how large the process became."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.before = memory(gateway)[0]
        self.answers: list[tuple[float, int]] = []
        """Seconds and status."""

    @property
    def slowest(self) -> float:
        return max(seconds for seconds, _ in self.answers)

    @property
    def grown(self) -> float:
        """MiB, at the peak."""
        return (memory(self._gateway)[1] - self.before) / MIB

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            began = time.monotonic()
            try:
                status = self._gateway.page("/healthz")[0]
            except OSError:
                status = 0
            self.answers.append((time.monotonic() - began, status))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(SECONDS)


def memory(gateway: GatewayProcess) -> tuple[int, int]:
    """Bytes of the process, now and at its peak."""
    text = Path(f"/proc/{gateway.process.pid}/status").read_text()
    found = {name: int(size) * 1024 for name, size in re.findall(r"(Vm\w+):\s+(\d+) kB", text)}
    return found["VmRSS"], found["VmHWM"]


def send(gateway: GatewayProcess, requests: Iterable[bytes]) -> Counter[int]:
    """As an exporter does: one after the other, again where that is asked for. Returns the answers."""
    answers: Counter[int] = Counter()
    connection = http.client.HTTPConnection("127.0.0.1", gateway.ports["http"], timeout=120)
    for data in requests:
        status = 0
        while status != 200:
            connection.request("POST", "/v1/traces", data, {"Content-Type": "application/x-protobuf"})
            response = connection.getresponse()
            answer, status = response.read(), response.status
            answers[status] += 1
            if status == 200:
                partial = ExportTraceServiceResponse.FromString(answer).partial_success
                assert partial.rejected_spans == 0, partial.error_message
            else:
                assert status in (429, 503), answer
                time.sleep(float(response.headers["Retry-After"]))
    connection.close()
    return answers


def settled(gateway: GatewayProcess) -> dict[str, Any]:
    """`/stats` once nothing is open, nothing waits, and nothing changes any more."""
    last: list[Any] = [None]

    def still() -> Any:
        stats = gateway.page("/stats")[1]
        seen = {k: stats[k] for k in ("items", "losses", "runs", "rules", "open_traces", "queue")}
        same, last[0] = seen == last[0], seen
        waits = stats["open_traces"] or stats["queue"] or any(r["pending"] for r in stats["rules"].values())
        time.sleep(1.0)
        return same and not waits and stats

    return dict(eventually(still, seconds=600))


def total(counts: Any) -> int:
    """All numbers in nested counters."""
    return sum(map(total, counts.values())) if isinstance(counts, dict) else int(counts)


def spans_of(stats: dict[str, Any]) -> dict[str, int]:
    """What became of the spans that the gateway took for judging, as `/stats` says."""
    taken = stats["items"]["traces"]
    spans = sum(count for reason, count in stats["losses"].items() if reason.startswith("spans"))
    return {"taken": taken["to_judge"], "not_kept": spans, "lost": taken.get("lost", 0)}


def ends(rule: dict[str, Any]) -> int:
    """How many of the runs that a rule could judge have an end."""
    assert not rule["pending"]
    return total({name: rule[name] for name in ("scored", "not_scored", "failed", "dropped", "not_sampled")})


def scores_the_next(gateway: GatewayProcess) -> None:
    """An ordinary run is scored."""
    spans = recorded()
    trace = f"{spans[0].context.trace_id:032x}"
    assert post(f"{gateway.endpoint}/v1/traces", body(spans))[0] == 200
    eventually(lambda: trace in gateway.scores.read_text())


def report(what: str, watch: Watch, seconds: float, answers: Counter[int], stats: dict[str, Any]) -> None:
    delivered = next(iter(stats["destinations"].values()))
    print(
        f"\n{what}: sent in {seconds:.1f} s with answers {dict(answers)}; grew by {watch.grown:.0f} MiB from "
        f"{watch.before / MIB:.0f}; slowest /healthz {watch.slowest:.2f} s; {stats['losses']}; {delivered}"
    )


def test_very_many_traces_of_one_span_in_tap(tmp_path: Path) -> None:
    """More than can be judged in the time: all are scored, or counted as beyond the capacity."""
    spans = Spans(REQUEST, "invoke_agent", 200)
    with GatewayProcess(tmp_path, ["answered"], {"quiet": 0.5, "idle": 5.0}) as gateway:
        with Watch(gateway) as watch:
            began = time.monotonic()
            answers = send(gateway, (spans.request(first) for first in range(1, TRACES + 1, REQUEST)))
            seconds = time.monotonic() - began
            stats = settled(gateway)
        report(f"{TRACES} traces", watch, seconds, answers, stats)
        sent = -(-TRACES // REQUEST) * REQUEST
        assert spans_of(stats) == {"taken": sent, "not_kept": 0, "lost": 0}
        runs, rule = stats["runs"], stats["rules"]["answered"]
        assert runs["eligible"] + total(runs["ignored"]) == runs["seen"] == sent
        assert rule["eligible"] == runs["eligible"] == ends(rule)
        delivered = next(iter(stats["destinations"].values()))
        assert not delivered["pending"]
        assert delivered["exported"] + delivered["failed"] + delivered["dropped"] == rule["scored"] > 0
        assert watch.grown < 500
        assert {status for _, status in watch.answers} == {200}
        assert watch.slowest < HEALTH_SECONDS
        scores_the_next(gateway)
    assert gateway.process.returncode == 0
