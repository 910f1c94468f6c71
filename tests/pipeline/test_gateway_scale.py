"""A gateway and very many traces of one span each, at once.

Everything is answered as OTLP says, every span is accounted for, memory is bounded, `/healthz` answers all
the while, and the next ordinary run is scored.
"""

from __future__ import annotations

import http.client
import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.pipeline.test_gateway import body, recorded
from tests.support.gateways import GatewayProcess, post
from tests.support.waits import SECONDS, eventually

TRACES = int(os.environ.get("OTEL_EVALS_MANY_TRACES", "50000"))
"""Of one span each; a multiple of REQUEST."""
REQUEST = 2_000
"""Spans of a request."""
HEALTH_SECONDS = 5.0
"""In which `/healthz` answers; orchestrators give it a second, on a machine that is not also the sender."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc"),
]


def request(first: int) -> bytes:
    """Runs of one span, each in a trace of its own."""
    made = ExportTraceServiceRequest()
    scoped = made.resource_spans.add().scope_spans.add()
    scoped.scope.name = "app"
    now = time.time_ns()
    message = '[{"role":"assistant","parts":[{"type":"text","content":"%s"}]}]' % ("x" * 200)
    for number in range(first, first + REQUEST):
        span = scoped.spans.add(trace_id=number.to_bytes(16), span_id=number.to_bytes(8), name="agent")
        span.start_time_unix_nano, span.end_time_unix_nano = now - 1_000_000, now
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "invoke_agent"
        span.attributes.add(key="gen_ai.output.messages").value.string_value = message
    return bytes(made.SerializeToString())


def memory(gateway: GatewayProcess, which: str) -> float:
    """MiB of the process."""
    text = Path(f"/proc/{gateway.process.pid}/status").read_text()
    (size,) = re.findall(rf"{which}:\s+(\d+) kB", text)
    return int(size) / 1024


@contextmanager
def health_of(gateway: GatewayProcess) -> Iterator[list[tuple[float, int]]]:
    """Ask `/healthz` all the while; yields how long it took, and the status."""
    stop, answers = threading.Event(), list[tuple[float, int]]()

    def ask() -> None:
        while not stop.wait(0.05):
            began = time.monotonic()
            try:
                status = gateway.page("/healthz")[0]
            except OSError:
                status = 0
            answers.append((time.monotonic() - began, status))

    thread = threading.Thread(target=ask)
    thread.start()
    yield answers
    stop.set()
    thread.join(SECONDS)


def send(gateway: GatewayProcess) -> None:
    """As an exporter does: one after the other, again where that is asked for."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.ports["http"], timeout=120)
    for first in range(1, TRACES + 1, REQUEST):
        data, status = request(first), 0
        while status != 200:
            connection.request("POST", "/v1/traces", data, {"Content-Type": "application/x-protobuf"})
            response = connection.getresponse()
            answer, status = response.read(), response.status
            if status == 200:
                assert ExportTraceServiceResponse.FromString(answer).partial_success.rejected_spans == 0
            else:
                assert status in (429, 503), answer
                time.sleep(float(response.headers["Retry-After"]))
    connection.close()


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


def test_very_many_traces_of_one_span_in_tap(tmp_path: Path) -> None:
    """More than can be judged in the time: all are scored, or counted as beyond the capacity."""
    with GatewayProcess(tmp_path, ["answered"], {"quiet": 0.5, "idle": 5.0}) as gateway:
        before = memory(gateway, "VmRSS")
        with health_of(gateway) as answers:
            send(gateway)
            stats = settled(gateway)
        taken = stats["items"]["traces"]
        assert (taken["to_judge"], taken.get("lost", 0)) == (TRACES, 0)
        assert not [reason for reason in stats["losses"] if reason.startswith("spans")]
        runs, rule = stats["runs"], stats["rules"]["answered"]
        assert runs["eligible"] + total(runs["ignored"]) == runs["seen"] == TRACES
        ends = ("scored", "not_scored", "failed", "dropped", "not_sampled")
        assert rule["eligible"] == runs["eligible"] == total({end: rule[end] for end in ends})
        assert not rule["pending"]
        delivered = next(iter(stats["destinations"].values()))
        assert not delivered["pending"]
        assert delivered["exported"] + delivered["failed"] + delivered["dropped"] == rule["scored"] > 0
        assert memory(gateway, "VmHWM") - before < 500
        assert {status for _, status in answers} == {200}
        assert max(seconds for seconds, _ in answers) < HEALTH_SECONDS
        spans = recorded()
        assert post(f"{gateway.endpoint}/v1/traces", body(spans))[0] == 200
        eventually(lambda: f"{spans[0].context.trace_id:032x}" in gateway.scores.read_text())
    assert gateway.process.returncode == 0
