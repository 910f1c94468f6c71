"""A process that is frozen between invocations, as functions on Lambda and Cloud Run without CPU are."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support import PYTHONPATH
from tests.support.otlp_receiver import OtlpReceiver
from tests.support.servers import clean_environment
from tests.support.waits import SECONDS

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP"),
]
HANDLER = """
import asyncio, sys
import otel_evals
from opentelemetry import trace
from otel_evals import Rule, scorer
from tests.support.traffic import agent_run

@scorer(version="1")
async def judged(run) -> bool:
    await asyncio.sleep(0.2)
    return bool(run.output)

otel_evals.configure(rules=[Rule(judged, timeout=2)], hold=5)

def handler(flushed):
    agent_run(trace.get_tracer("app"))
    if flushed:
        otel_evals.force_flush(100_000)

for line in sys.stdin:
    handler(line.strip() == "flush")
    print("returned", flush=True)
"""
FROZEN = 3.0
"""Seconds, more than the rule's timeout."""


class Function:
    """The handler's process, which runs during an invocation only."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        process.send_signal(signal.SIGSTOP)

    def invoke(self, event: str, *, then: float = FROZEN) -> None:
        """Thaw it, have it handle an event, freeze it as soon as it returned."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.send_signal(signal.SIGCONT)
        self.process.stdin.write(event + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "returned\n"
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(then)


@contextmanager
def function(receiver: OtlpReceiver) -> Iterator[Function]:
    environment = {
        **clean_environment(),
        "PYTHONPATH": PYTHONPATH,
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", HANDLER],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Function(process)
        process.send_signal(signal.SIGCONT)
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, errors
        assert "Traceback" not in errors, errors
    finally:
        process.kill()
        process.wait()


def scored(receiver: OtlpReceiver) -> int:
    return sum(span.attributes.get("otel_evals.score.judged") == 1.0 for span in receiver.spans)


def test_after_a_flush_the_score_has_left_before_the_freeze() -> None:
    with OtlpReceiver() as receiver, function(receiver) as handler:
        for number in (1, 2, 3):
            handler.invoke("flush", then=0.0)
            assert scored(receiver) == number
            time.sleep(FROZEN)


def test_without_a_flush_every_span_and_an_outcome_of_each_run_still_arrive() -> None:
    """The clock jumps over the timeout and the hold: an evaluation that was frozen may count as timed out."""
    with OtlpReceiver() as receiver:
        with function(receiver) as handler:
            for _ in range(3):
                handler.invoke("return")
        roots = [span for span in receiver.spans if span.name == "invoke_agent support"]
        events = [log for log in receiver.logs if log.event_name == "gen_ai.evaluation.result"]
    assert len(roots) == len({span.trace_id for span in roots}) == 3
    assert {event.trace_id for event in events} == {span.trace_id for span in roots}
    outcomes = [
        event.attributes.get("gen_ai.evaluation.score.value", event.attributes.get("error.type"))
        for event in events
    ]
    assert len(outcomes) == 3
    assert set(outcomes) <= {1.0, "timeout"}
