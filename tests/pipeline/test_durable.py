"""The durable spool, end to end: what is sampled is scored, whatever ends the process, under the same ids."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.trace import SpanContext, TraceFlags, set_span_in_context
from opentelemetry.trace import NonRecordingSpan
from traffic import Live, agent_run

from otel_evals import Rule, Run, sampling
from otel_evals.errors import DestinationError, JudgeUnavailableError
from otel_evals.export.jsonl import read_jsonl
from otel_evals.scorer import Scorer, scorer

PROGRAM = """
import asyncio, os, signal, sys, time
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import Rule
from otel_evals.scorer import scorer
from traffic import agent_run

store, scores = sys.argv[1:3]

@scorer(version="1")
async def slow(run) -> float:
    await asyncio.sleep(float(os.environ.get("TAKES", "0.3")))
    if "poison" in run.input:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1.0

@scorer(inline=True, version="1")
def fast(run) -> float:
    return 1.0

provider = TracerProvider()
pipeline = otel_evals.configure(
    rules=[Rule(slow, concurrency=50), Rule(fast)], destinations=[{"jsonl": {"path": scores}}],
    tracer_provider=provider, store=store, store_lease=0.6, grace=0.05, shutdown_timeout=5,
)
tracer = provider.get_tracer("app")

def issue(n, question="Where is order A-1001?"):
    return [agent_run(tracer, question) for _ in range(n)]

def wait(done, seconds=20):
    end = time.monotonic() + seconds
    while not done(otel_evals.stats()):
        assert time.monotonic() < end, otel_evals.stats()
        time.sleep(0.01)

def report():
    stats = otel_evals.stats()
    assert stats.check() == [], stats
    print(stats.rules["slow"], dict(stats.store), flush=True)
"""


def run(tmp_path: Path, ending: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process with the store and the scores file of this test."""
    support = str(Path(__file__).parents[1] / "support")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM + ending, str(tmp_path / "runs.db"), str(tmp_path / "scores.jsonl")],
        env={**os.environ, "PYTHONPATH": support, **environment},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done


def delivered(tmp_path: Path) -> Counter[tuple[str, int]]:
    """How often each evaluation, by id and revision, stands in the scores file."""
    path = tmp_path / "scores.jsonl"
    if not path.exists():
        return Counter()
    return Counter(
        (evaluation["evaluation_id"], evaluation["revision"])
        for line in read_jsonl(path)
        for evaluation in line["evaluations"]
    )


def left(tmp_path: Path) -> Counter[str]:
    """Runs in the store by state."""
    connection = sqlite3.connect(tmp_path / "runs.db")
    try:
        return Counter(dict(connection.execute("SELECT state, count(*) FROM run GROUP BY state").fetchall()))
    finally:
        connection.close()


KILL = "os.kill(os.getpid(), signal.SIGKILL)"
ALL_WRITTEN = "wait(lambda s: s.store.get('written', 0) == 20)\n"


def test_after_kill_9_nothing_is_lost_and_nothing_is_doubled(tmp_path: Path) -> None:
    """Twenty runs are in the store, some scored, some not, when the process is killed; the next one goes on."""
    run(tmp_path, f"issue(20)\n{ALL_WRITTEN}time.sleep(0.2)\n{KILL}", code=-signal.SIGKILL)
    before = delivered(tmp_path)
    run(tmp_path, "wait(lambda s: s.rules['slow'].scored + len(%r) // 2 >= 20); report()" % sorted(before))
    after = delivered(tmp_path)
    assert len(after) == 40
    assert set(after.values()) == {1}
    assert left(tmp_path) == {"done": 20}


def test_a_process_killed_between_delivering_and_saying_so_doubles_nothing(tmp_path: Path) -> None:
    """The destination has the scores, the store does not know: the next process asks it."""
    ending = f"""
pipeline._spool._settle = lambda entry: None  # what the kill would cut off
issue(20)
wait(lambda s: s.rules['slow'].scored == 20 and s.store.get('written', 0) == 20)
otel_evals.force_flush()
{KILL}"""
    run(tmp_path, ending, code=-signal.SIGKILL)
    assert len(delivered(tmp_path)) == 40
    assert left(tmp_path) == {"open": 20}
    run(tmp_path, "wait(lambda s: s.store.get('taken_over', 0) == 20); time.sleep(0.3); report()")
    assert set(delivered(tmp_path).values()) == {1}
    assert left(tmp_path) == {"done": 20}
