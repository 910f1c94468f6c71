"""The gateway while what it depends on is away: every run that a rule sampled ends, once, and is counted."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals import Rule
from otel_evals.errors import DestinationError
from otel_evals.model import Run, ScoredRun
from otel_evals.scorers import answered, scorer
from tests.pipeline.test_gateway import body, recorded
from tests.support.gateways import GatewayThread, get
from tests.support.waits import eventually


class Gated:
    """A destination that accepts nothing until it is opened."""

    name = "gated"

    def __init__(self) -> None:
        self.open = threading.Event()
        self.accepted: set[str] = set()

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        if not self.open.is_set():
            raise DestinationError("closed", retryable=True)
        self.accepted |= {each.run.trace_id for each in batch}

    async def shutdown(self) -> None:
        pass


@pytest.mark.slow
def test_senders_wait_before_a_destination_loses_a_run() -> None:
    """The destination is away: what was accepted is delivered later, and the rest is answered with 429."""
    gated, accepted, statuses = Gated(), set[str](), set[int]()
    options = {"destinations": [gated], "limits": {"max_bytes": 400_000, "max_open_traces": 100}}
    with GatewayThread(Rule(answered()), gateway={"quiet": 0.05, "idle": 0.1}, **options) as gateway:

        def send() -> bool:
            spans = recorded()
            status = gateway.post("/v1/traces", body(spans))[0]
            statuses.add(status)
            if status == 200:
                accepted.add(f"{spans[0].context.trace_id:032x}")
            return status == 429

        eventually(send)
        assert len(accepted) > 100
        pages = gateway.service._healthz()[0], gateway.service._readyz()[0]
        assert pages == (200, 200), "a destination that is away is no reason to restart the process"
        gated.open.set()
        eventually(lambda: not send())
        eventually(lambda: gated.accepted == accepted)
        assert gateway.service.scoring.engine.losses() == {}
    assert statuses == {200, 429}


def test_senders_wait_for_a_slow_scorer_and_no_accepted_run_is_lost() -> None:
    """The scorer answers nothing for a while: the rest is answered with 429 until it does."""
    go_on, accepted = threading.Event(), set[str]()

    def slow(run: Run) -> float:
        return float(go_on.wait(60))

    rule = Rule(scorer(id="slow", version="1")(slow), concurrency=1, timeout=90.0)
    section = {"quiet": 0.05, "idle": 600.0}
    with GatewayThread(rule, gateway=section, limits={"queue_size": 8, "max_open_traces": 40}) as gateway:

        def send() -> int:
            spans = recorded()
            status: int = gateway.post("/v1/traces", body(spans))[0]
            if status == 200:
                accepted.add(f"{spans[0].context.trace_id:032x}")
            return status

        def is_full() -> bool:
            return send() == 429

        eventually(is_full)
        assert 36 < len(accepted) < 60, "those that wait for the scorer, and nine tenths of the open traces"
        go_on.set()
        eventually(lambda: not is_full())
        eventually(lambda: {e.trace_id for e in gateway.scored.evaluations} == accepted)
        assert gateway.service.scoring.engine.losses() == {}


def tiny_traces(count: int) -> bytes:
    """So many traces of one span each, whose parent never comes."""
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for _ in range(count):
        span = spans.add(
            trace_id=os.urandom(16), span_id=os.urandom(8), parent_span_id=b"parent!!", name="chat"
        )
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    return bytes(request.SerializeToString())


def test_accepted_runs_are_scored_however_many_traces_are_open() -> None:
    """Traces come faster than they are complete: orphans are evicted, and complete runs are never."""
    requests = [(spans[0].context.trace_id, body(spans)) for spans in (recorded() for _ in range(60))]
    section = {"quiet": 600.0, "idle": 600.0}
    with GatewayThread(Rule(answered()), gateway=section, limits={"max_open_traces": 30}) as gateway:
        assert [gateway.post("/v1/traces", tiny_traces(40))[0] for _ in range(5)] == [200] * 5
        answers = {f"{trace:032x}": gateway.post("/v1/traces", data)[0] for trace, data in requests}
        losses = gateway.service.scoring.engine.losses
        eventually(lambda: losses() == {"runs (too_many_traces)": 197})
        assert gateway.post("/v1/traces", tiny_traces(40))[0] == 429
    accepted = {trace for trace, status in answers.items() if status == 200}
    assert len(accepted) == 27, "nine tenths of the open traces"
    assert {each.trace_id for each in gateway.scored.evaluations} == accepted


def test_what_a_process_left_waits_for_capacity_and_senders_meanwhile(tmp_path: Path) -> None:
    """The journal has more traces than may be open, and the scorer answers nothing for a while."""
    go_on, left, journal = threading.Event(), set[str](), tmp_path / "journal"
    away = GatewayThread(Rule(answered()), destinations=[Gated()], journal=journal, shutdown_timeout=0.2)
    with away:
        for _ in range(80):
            spans = recorded()
            left.add(f"{spans[0].context.trace_id:032x}")
            assert away.post("/v1/traces", body(spans))[0] == 200

    def slow(run: Run) -> float:
        return float(go_on.wait(60))

    rule = Rule(scorer(id="slow", version="1")(slow), concurrency=1, timeout=90.0)
    limits = {"queue_size": 8, "max_open_traces": 40}
    gateway = GatewayThread(rule, gateway={"quiet": 0.05, "idle": 600.0}, journal=journal, limits=limits)
    starting = threading.Thread(target=gateway.start)
    starting.start()
    eventually(lambda: gateway.service is not None and gateway.service.ports)
    eventually(lambda: not gateway.service.scoring.has_capacity(1))
    assert gateway.post("/v1/traces", body(recorded()))[0] == 503
    assert get(f"{gateway.endpoint}/healthz")[0] == 200
    assert get(f"{gateway.endpoint}/readyz")[0] == 503
    go_on.set()
    starting.join()
    eventually(lambda: {e.trace_id for e in gateway.scored.evaluations} == left)
    assert "traces" not in gateway.service.traffic.snapshot()["items"], "none is lost"
    gateway.stop()
