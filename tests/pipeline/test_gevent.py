"""Under gevent, which replaces threads by greenlets, the application continues and all runs are scored."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import PYTHONPATH
from tests.support.waits import SECONDS

pytest.importorskip("gevent")


PROGRAM = """
from gevent import monkey
monkey.patch_all()

import asyncio
import time
import anyio
import gevent
import otel_evals
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from otel_evals._internal.deliver.memory import InMemoryDestination
from tests.support.traffic import agent_run

@otel_evals.scorer(id="waits", version="1")
async def waits(run):
    await anyio.sleep(0.05)
    return 1.0

@otel_evals.scorer(id="blocks", version="1")
def blocks(run):
    time.sleep(0.05)
    return 1.0

@otel_evals.scorer(id="computes", version="1", inline=True)
def computes(run):
    return bool(run.output)

trace.set_tracer_provider(TracerProvider())
found = InMemoryDestination()
rules = [otel_evals.Rule(each) for each in (waits, blocks, computes)]

def work():
    for _ in range(5):
        agent_run(trace.get_tracer("tests"))
        gevent.sleep(0.01)

async def answer():
    await asyncio.sleep(0.01)
    agent_run(trace.get_tracer("tests"))

options = OPTIONS
otel_evals.configure(rules=rules, destinations=[found], **options)
gevent.joinall([gevent.spawn(work) for _ in range(4)])
for _ in range(5):
    asyncio.run(answer())
    gevent.sleep(0.01)
assert otel_evals.force_flush(100_000)
assert len(found.evaluations) == 75, len(found.evaluations)
otel_evals.shutdown()
"""


def run(options: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("OPTIONS", options)],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("options", ["{}", "{'journal': 'journal'}"])
def test_all_runs_are_scored(options: str, tmp_path: Path) -> None:
    done = run(options, tmp_path)

    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_scorer_in_a_process_of_its_own_is_refused(tmp_path: Path) -> None:
    done = run("{}; rules[0] = otel_evals.Rule(waits, isolation='process')", tmp_path)

    assert "rules[0].isolation: 'process' does not work where gevent has replaced threads" in done.stderr
