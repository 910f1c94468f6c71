"""A signal handler interrupts the main thread anywhere, also inside this library, and never waits for it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support import PYTHONPATH
from tests.support.waits import SECONDS

PROGRAM = """
import signal, sys, time
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import scorer
from tests.support.agents import agent_run

@scorer(version="1")
def judge(run) -> float:
    return 1.0

provider = TracerProvider()
tracer = provider.get_tracer("app")
otel_evals.configure(rules=[judge], tracer_provider=provider, limits={"queue_size": 1}, metrics=False)
handled = 0

def handle(number, frame):
    global handled
    handled += 1
    otel_evals.stats().check() == [] or sys.exit("the counters do not balance")
    otel_evals.health()
    if handled % 10 == 0:
        agent_run(tracer)

signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
until = time.monotonic() + 3
while time.monotonic() < until:
    agent_run(tracer)
    otel_evals.stats()
    otel_evals.health()
    otel_evals.check_sync(judge, "An answer.", deadline=0.001)
signal.setitimer(signal.ITIMER_REAL, 0)
otel_evals.shutdown()
print(handled)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs signals of POSIX")
def test_counters_are_read_and_spans_end_in_a_signal_handler() -> None:
    program = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert program.returncode == 0, program.stderr[-2_000:]
    assert int(program.stdout) > 100
