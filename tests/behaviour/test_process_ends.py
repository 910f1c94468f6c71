"""Whichever way a process ends, what was sampled is scored or counted, and held spans leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.support import PYTHONPATH
from tests.support.waits import SECONDS

PROGRAM = """
import asyncio, atexit, json, os, signal, sys, threading, time
import otel_evals
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from otel_evals import Rule, scorer
from tests.support.agents import agent_run

@scorer
async def slow(run) -> float:
    await asyncio.sleep(0.2)
    await asyncio.get_running_loop().getaddrinfo("localhost", 80)  # as every client does, in an executor
    return 1.0

@scorer
def in_thread(run) -> float:
    time.sleep(0.01)
    return 1.0

provider = TracerProvider()
trace.set_tracer_provider(provider)
pipeline = otel_evals.configure(
    rules=[Rule(slow, concurrency=60), Rule(in_thread)], destinations=[{"jsonl": {"path": sys.argv[1]}}],
    shutdown_timeout=5,
)
class Counting(ConsoleSpanExporter):
    def export(self, spans):
        with open(sys.argv[1] + ".spans", "a") as file:
            file.writelines(f"{s.name} {'otel_evals.score.slow' in s.attributes}\\n" for s in spans)
        return super().export([])
provider.add_span_processor(BatchSpanProcessor(pipeline.hold(Counting())))
for _ in range(20):
    agent_run(trace.get_tracer("app"))
"""


slow = partial(pytest.param, marks=pytest.mark.slow)


def start(tmp_path: Path, ending: str, program: str = PROGRAM) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": PYTHONPATH}
    return subprocess.Popen(
        [sys.executable, "-c", program + ending, str(tmp_path / "scores.jsonl")],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def check(tmp_path: Path, process: subprocess.Popen[str], code: int = 0, runs: int = 20) -> None:
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == code, errors
    assert "Traceback" not in errors, errors
    scores = lines(tmp_path / "scores.jsonl")
    assert len(scores) == runs, errors
    assert sum(line.count('"value":1.0') + line.count('"value": 1.0') for line in scores) == 2 * runs
    spans = lines(tmp_path / "scores.jsonl.spans")
    assert spans.count("invoke_agent support True") == runs
    assert spans.count("chat m False") == runs


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param("", id="the end of the program"),
        slow("sys.exit(0)", id="sys.exit"),
        slow("otel_evals.shutdown()", id="shutdown"),
        slow("provider.shutdown()", id="the provider's shutdown"),
        slow("otel_evals.force_flush(); otel_evals.shutdown(10)", id="flush, then leave at once"),
        slow(
            "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); os.kill(os.getpid(), signal.SIGTERM)",
            id="SIGTERM with a handler that exits",
        ),
        slow(
            "asyncio.run(asyncio.to_thread(agent_run, trace.get_tracer('x')))",
            id="after an event loop closed",
        ),
    ],
)
def test_nothing_is_lost_on_a_clean_way_out(tmp_path: Path, ending: str) -> None:
    """Twenty runs are scored by two scorers, and their spans leave with the scores."""
    process = start(tmp_path, ending)
    check(tmp_path, process, runs=21 if "asyncio" in ending else 20)


@pytest.mark.parametrize("runs", [0, 1])
def test_a_program_with_next_to_nothing_to_score_ends_well(tmp_path: Path, runs: int) -> None:
    """Scoring needs threads, which some interpreters do not start at their end; without a run, silence."""
    process = start(tmp_path, "", PROGRAM.replace("range(20)", f"range({runs})"))
    if runs:
        check(tmp_path, process, runs=1)
    else:
        assert process.communicate(timeout=SECONDS) == ("", "")


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        pytest.param("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", -signal.SIGTERM, id="default"),
        slow("os.kill(os.getpid(), signal.SIGTERM); sys.exit(3)", 3, id="ignored before"),
        slow("os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)", 7, id="the application's handler exits"),
        slow(
            "asyncio.run(asyncio.sleep(0.01)); os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)",
            -signal.SIGTERM,
            id="after an event loop",
        ),
        slow(
            "threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start(); otel_evals.shutdown(); "
            "time.sleep(9)",
            -signal.SIGTERM,
            id="during a shutdown",
        ),
        slow(
            "threading.Thread(target=otel_evals.shutdown).start(); time.sleep(0.1); "
            "os.kill(os.getpid(), signal.SIGTERM); time.sleep(9)",
            -signal.SIGTERM,
            id="during a shutdown on another thread",
        ),
        slow(
            "threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start(); otel_evals.shutdown(); "
            "time.sleep(9)",
            7,
            id="during a shutdown, and the application's handler exits",
        ),
    ],
)
def test_nothing_is_lost_on_sigterm_when_asked_to_handle_it(tmp_path: Path, ending: str, code: int) -> None:
    """Everything is scored first; then the process ends as it would have."""
    before = {
        3: "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n",
        7: "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))\n",
    }.get(code, "")
    program = PROGRAM.replace("shutdown_timeout=5,", "shutdown_timeout=5, handle_sigterm=True,")
    process = start(tmp_path, ending, before + program)
    check(tmp_path, process, code)


@pytest.mark.slow
def test_traffic_of_threads_that_outlive_the_main_thread_is_scored(tmp_path: Path) -> None:
    """A non-daemon thread goes on after the main thread's end; its runs count like all others."""
    ending = """
def work():
    time.sleep(0.5)
    agent_run(trace.get_tracer("app"))
threading.Thread(target=work).start()
"""
    check(tmp_path, start(tmp_path, ending), runs=21)


def test_a_hanging_scorer_delays_leaving_by_the_budget_at_most(tmp_path: Path) -> None:
    """What is not scored in time is counted as dropped and named on the log; the spans still leave."""
    ending = """
@scorer
async def hangs(run) -> float:
    await asyncio.sleep(600)
    return 1.0

import logging
logging.basicConfig(level=logging.WARNING)
pipeline = otel_evals.configure(rules=[Rule(hangs, timeout=600)], shutdown_timeout=0.5)
provider.add_span_processor(BatchSpanProcessor(pipeline.hold(Counting())))
for _ in range(3):
    agent_run(trace.get_tracer("app"))
"""
    process = start(tmp_path, ending)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    assert "3 evaluations by hangs (shutdown)" in errors
    assert "Traceback" not in errors, errors


@pytest.mark.slow
def test_threads_that_go_on_after_a_slow_end_have_time_of_their_own(tmp_path: Path) -> None:
    """The time that the main thread's end used up is not taken from what comes much later."""
    ending = """
@scorer
async def hangs_at_first(run) -> float:
    await asyncio.sleep(60 if run.agent_name == "first" else 0.2)
    return 1.0

otel_evals.configure(
    rules=[Rule(hangs_at_first, timeout=60)], shutdown_timeout=2,
    destinations=[{"jsonl": {"path": sys.argv[1] + ".late"}}],
)
agent_run(trace.get_tracer("app"), agent="first")
def work():
    time.sleep(5)
    agent_run(trace.get_tracer("app"))
threading.Thread(target=work).start()
"""
    process = start(tmp_path, ending)
    _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, errors
    outcomes = [
        json.loads(line)["evaluations"][0]["status"] for line in lines(tmp_path / "scores.jsonl.late")
    ]
    assert sorted(outcomes) == ["dropped", "scored"], errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_scores_what_it_captures(tmp_path: Path) -> None:
    """Parent and child each score their own runs, once; as preforking servers do."""
    ending = """
otel_evals.force_flush()
pid = os.fork()
if pid == 0:
    for _ in range(5):
        agent_run(trace.get_tracer("child"))
    assert otel_evals.force_flush(100_000)
    stats = otel_evals.stats()
    assert stats.rules["slow"].scored == 5, stats
    assert stats.check() == []
    provider.force_flush()
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
assert otel_evals.stats().rules["slow"].scored == 20
"""
    check(tmp_path, start(tmp_path, ending), runs=25)


@pytest.mark.slow
def test_sigint_ends_as_it_would_without_us(tmp_path: Path) -> None:
    """Ctrl-C still ends the program with KeyboardInterrupt; the runs before it are scored."""
    process = start(tmp_path, "print('ready', flush=True); time.sleep(30)")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    assert "KeyboardInterrupt" in errors
    assert len(lines(tmp_path / "scores.jsonl")) == 20


def test_what_was_delivered_before_os_exit_is_not_scored_by_the_next_process(tmp_path: Path) -> None:
    program = PROGRAM.replace("shutdown_timeout=5", "journal=sys.argv[1] + '.journal'")
    check(tmp_path, start(tmp_path, "pipeline.force_flush(); provider.force_flush(); os._exit(0)", program))
    check(tmp_path, start(tmp_path, "", program.partition("for _")[0]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_what_a_child_records_after_the_provider_was_shut_down_is_counted(tmp_path: Path) -> None:
    ending = """
provider.shutdown()
pid = os.fork()
if pid == 0:
    agent_run(trace.get_tracer("child"))
    otel_evals.force_flush()
    assert otel_evals.stats().losses == {"root_not_ended_at_shutdown": 3}
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""
    check(tmp_path, start(tmp_path, ending))
