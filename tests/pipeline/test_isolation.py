"""Scorers in processes of their own: what they do to their process costs their own run and nothing else."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from opentelemetry import trace
from pydantic import BaseModel

from otel_evals import ConfigError, NotScored, Rule, Run, Score, Scorer, scorer
from otel_evals._internal.scorers.kit.scorer import StepFailure
from otel_evals.errors import JudgeUnavailableError
from otel_evals.model import ScorerFailure, StepRecord
from tests.support import PYTHONPATH
from tests.support.traffic import Live
from tests.support.waits import SECONDS, eventually


@scorer
def where(run: Run) -> Score:
    """Says which process it runs in."""
    return Score(value=1.0, explanation=f"{os.getpid()} {run.output}")


def scoring(function: Callable[[Run], Any], name: str = "s") -> Scorer:
    return scorer(id=name, version="1")(function)


def outcomes(live: Live, scorer_id: str = "s") -> list[Any]:
    return [e.outcome for e in live.scored.evaluations if e.scorer_id == scorer_id]


def asks(run: Run, word: str) -> bool:
    return word in (run.input or "")


def children() -> set[int]:
    """The scoring processes of this one: a server that another test left may be its child as well."""
    found = set()
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if any(argument == "anyio.to_process" for argument in child.cmdline()):
                found.add(child.pid)
    return found


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_scorer_sees_the_whole_run_in_another_process_that_ends_with_the_pipeline() -> None:
    """One process scores every run; it is a child of this one and gone after the shutdown."""
    with Live(Rule(where, isolation="process", concurrency=1), hold=60) as live:
        for _ in range(3):
            live.run()
        assert live.flush()
        explained = {outcome.explanation for outcome in outcomes(live, "where")}
        assert len(explained) == 1
        pid, output = explained.pop().split(" ", 1)
        assert int(pid) in children()
        assert output == "It arrives on 2026-11-25."
        assert live.span("invoke_agent support").attributes["otel_evals.score.where"] == 1.0
        assert live.scored.evaluations[0].scorer_version == where.version
    eventually(lambda: gone(int(pid)))


@pytest.mark.slow
def test_what_a_scorer_raises_keeps_its_type_message_and_steps() -> None:
    """An exception whose class the parent could not even rebuild is still named; a failed step is kept."""

    class AwkwardError(Exception):
        def __init__(self, a: int, b: int) -> None:
            super().__init__(f"{a}, {b}")

    def raise_it(run: Run) -> float:
        if asks(run, "step"):
            raise StepFailure("failed", steps=(StepRecord(name="analyze"),)) from KeyError("order")
        if asks(run, "exit"):
            sys.exit(3)
        raise AwkwardError(1, 2)

    with Live(Rule(scoring(raise_it), isolation="process")) as live:
        for question in ("plain", "step", "exit"):
            live.run(question=question)
        assert live.flush()
        seen = {(o.error_type, o.message, len(o.steps)) for o in outcomes(live)}
    assert seen == {("AwkwardError", "1, 2", 0), ("KeyError", "'order'", 1), ("SystemExit", "3", 0)}


def test_an_unavailable_judge_is_asked_again_as_anywhere_else() -> None:
    """JudgeUnavailableError crosses the process boundary and is retried by the lane."""
    tried = []

    async def flaky(run: Run) -> float:
        tried.append(run.trace_id)
        if len(tried) == 1:
            raise JudgeUnavailableError("429", retry_after=0.01)
        return float(len(tried) == 2)

    with Live(Rule(scoring(flaky), isolation="process", concurrency=1)) as live:
        live.run()
        assert live.flush()
        (evaluation,) = live.scored.evaluations
    assert evaluation.outcome == Score(value=1.0)
    assert evaluation.attempts == 2
    assert tried == [], "the list that was filled is the process's own"


@pytest.mark.slow
def test_results_of_steps_come_back_even_where_their_class_cannot() -> None:
    """A result of a class that only the scorer knows comes back as plain data."""

    class Verdict(BaseModel):
        grounded: bool

    def judge(run: Run) -> Score | NotScored:
        step = StepRecord(name="analyze", result=Verdict(grounded=True))
        return NotScored(reason="odd", steps=(step,)) if asks(run, "odd") else Score(value=1.0, steps=(step,))

    with Live(Rule(scoring(judge), isolation="process")) as live:
        live.run(question="even")
        live.run(question="odd")
        assert live.flush()
        results = [o.steps[0].result for o in outcomes(live)]
    assert [getattr(r, "grounded", None) or r["grounded"] for r in results] == [True, True]


@pytest.mark.slow
def test_a_crash_costs_its_own_run_only() -> None:
    """The run that kills its process is tried once more, then counted; the runs around it are scored."""

    def risky(run: Run) -> float:
        if asks(run, "crash"):
            ctypes.string_at(0)
        return 1.0

    with Live(Rule(scoring(risky), isolation="process", concurrency=1)) as live:
        for question in ("one", "crash", "two"):
            live.run(question=question)
        assert live.flush()
        rule = live.pipeline.stats().rules["s"]
        assert (rule.scored, rule.failed) == (2, {"process_died": 1})
        (failure,) = [o for o in outcomes(live) if isinstance(o, ScorerFailure)]
        assert failure.attempts == 2
        assert live.pipeline.stats().check() == []


@pytest.mark.slow
def test_a_process_killed_from_outside_is_replaced_and_no_run_is_lost() -> None:
    """kill -9 of an idle process and of a busy one: the next run, and the interrupted one, are scored."""

    def slow(run: Run) -> Score:
        time.sleep(0.3 if asks(run, "slow") else 0)
        return Score(value=1.0, explanation=str(os.getpid()))

    with Live(Rule(scoring(slow), isolation="process", concurrency=1)) as live:
        live.run()
        assert live.flush()
        (idle,) = children()
        os.kill(idle, signal.SIGKILL)
        eventually(lambda: gone(idle))
        live.run(question="slow")
        (busy,) = eventually(children)
        time.sleep(0.1)
        os.kill(busy, signal.SIGKILL)
        assert live.flush()
        rule = live.pipeline.stats().rules["s"]
        assert (rule.scored, rule.failed) == (2, {})
        assert len({o.explanation for o in outcomes(live)} - {str(busy)}) == 2


@pytest.mark.slow
def test_a_scorer_that_holds_the_gil_for_ever_is_killed_at_the_timeout() -> None:
    """A regular expression that never ends: no thread could be stopped in it, and no loop would run."""

    def backtracks(run: Run) -> float:
        return float(bool(re.match(r"(a+)+$", ("a" * 40 if asks(run, "hang") else "a") + "b")))

    with Live(Rule(scoring(backtracks), isolation="process", timeout=0.5, concurrency=1)) as live:
        live.run()
        assert live.flush()
        (before,) = children()
        live.run(question="hang")
        live.run()
        assert live.flush()
        rule = live.pipeline.stats().rules["s"]
        assert (rule.scored, rule.failed) == (2, {"timeout": 1})
        eventually(lambda: gone(before))


@pytest.mark.slow
def test_a_hanging_scorer_takes_no_other_rules_process() -> None:
    """Every isolated rule has its own processes."""

    def hang(run: Run) -> float:
        time.sleep(60)
        return 1.0

    with Live(Rule(scoring(hang, "hangs"), isolation="process"), Rule(where, isolation="process")) as live:
        for _ in range(5):
            live.run()
        eventually(lambda: live.pipeline.stats().rules["where"].scored == 5)
        hanging = children()
        live.pipeline.shutdown(1_500)
        eventually(lambda: all(gone(pid) for pid in hanging))
        assert live.pipeline.stats().rules["hangs"].dropped == {"shutdown": 5}
        assert live.pipeline.stats().check() == []


def test_nothing_a_scorer_does_in_its_process_is_traced() -> None:
    """The SDK is switched off there, and what runs is marked all the same."""

    def traced(run: Run) -> Score:
        from opentelemetry.sdk.trace import TracerProvider

        with TracerProvider().get_tracer("judge").start_as_current_span("inner") as span:
            return Score(value=float(not span.is_recording()), explanation=trace.__name__)

    with Live(Rule(scoring(traced), isolation="process")) as live:
        live.run()
        assert live.flush()
        assert outcomes(live)[0].value == 1.0


def test_output_of_native_code_and_child_processes_is_no_reply() -> None:
    def prints(run: Run) -> Score:
        subprocess.run(["echo", "from a child process"], check=True)
        os.write(1, b"from native code")
        return Score(value=float(not os.read(0, 1)))

    isolated = [Rule(scoring(prints, name), isolation="process") for name in ("one", "other")]
    with Live(*isolated) as live:
        live.run()
        live.run()
        assert live.flush()
        assert [e.outcome.value for e in live.scored.evaluations] == [1.0] * 4


class Unready(Scorer):
    id, version = "s", "1"

    def prepare(self) -> None:
        raise OSError("no model file")

    async def score(self, run: Run) -> Score:
        return Score(value=1.0)


def test_an_unprepared_scorer_scores_no_run() -> None:
    with Live(Rule(Unready(), isolation="process")) as live:
        live.run()
        live.run()
        assert live.flush()
        assert [outcome.message for outcome in outcomes(live)] == ["no model file"] * 2


def test_a_scorer_that_cannot_be_sent_is_a_configuration_error() -> None:
    """It is named when the rule is built, with what helps."""
    lock = threading.Lock()

    def guarded(run: Run) -> bool:
        with lock:
            return True

    with pytest.raises(ConfigError, match=r"isolation: 'guarded' cannot be sent.*on first use"):
        Rule(scoring(guarded, "guarded"), isolation="process")


def test_without_cloudpickle_only_importable_scorers_can_be_sent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The message names the library; a scorer that a module defines under its name needs none."""
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ConfigError, match=r"pip install cloudpickle"):
        Rule(scoring(lambda run: 1.0, "nameless"), isolation="process")
    (tmp_path / "my_scorers.py").write_text(
        "from otel_evals import scorer\n"
        "@scorer\ndef named(run) -> bool:\n    return __name__ == 'my_scorers'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    named = importlib.import_module("my_scorers").named

    with Live(Rule(named, isolation="process")) as live:
        live.run()
        assert live.flush()
        assert outcomes(live, "named") == [Score(value=1.0, label="true")]


PROGRAM = """
import os, re, signal, sys, time
from otel_evals import Rule, scorer
from tests.support.traffic import Live

print("imported", flush=True)

@scorer
def judge(run) -> float:
    with open(os.environ["PIDS"], "a") as pids:
        pids.write(f"{os.getpid()}\\n")
    if "hang" in run.input:
        re.match(r"(a+)+$", "a" * 40 + "b")
    return 1.0

live = Live(Rule(judge, isolation="process", concurrency=1, timeout=60), shutdown_timeout=8)
live.run(question=sys.argv[1])
"""


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file to which scorers write the ids of their processes, a line for each run."""
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))
    return tmp_path / "pids"


def program(ending: str, question: str = "ask") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM + ending, question],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def scoring_pid(pids: Path) -> int:
    return int(eventually(lambda: pids.exists() and pids.read_text()).split()[0])


@pytest.mark.slow
@pytest.mark.usefixtures("pids")
def test_a_command_of_a_shell_is_not_run_again() -> None:
    """The main module's scorer travels by value: nothing at its top level happens twice."""
    process = program("assert live.flush(); print(live.pipeline.stats().rules['judge'].scored)")
    out, errors = process.communicate(timeout=SECONDS)
    assert out.split() == ["imported", "1"], errors


@pytest.mark.slow
def test_the_process_ends_with_a_parent_that_is_killed(pids: Path) -> None:
    """kill -9 of the parent while the scorer holds the GIL of its process."""
    process = program("time.sleep(60)", question="hang")
    pid = scoring_pid(pids)
    process.kill()
    process.communicate(timeout=SECONDS)
    eventually(lambda: gone(pid))


@pytest.mark.slow
def test_ctrl_c_is_for_the_parent(pids: Path) -> None:
    """SIGINT to the whole group: the parent leaves in order and its run is still scored."""
    ending = """
try:
    live.flush()
    print("ready", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    live.run()
    print(live.flush(), live.pipeline.stats().rules["judge"].scored, flush=True)
    live.__exit__()
"""
    process = program(ending)
    pid = scoring_pid(pids)
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["imported\n", "ready\n"]
    os.kill(pid, signal.SIGINT)
    os.kill(pid, signal.SIGTERM)
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=SECONDS)
    assert "True 2" in out, errors
    assert pids.read_text().split() == [str(pid)] * 2, "the same process scored the second run"
    assert "Traceback" not in errors
    eventually(lambda: gone(pid))


@pytest.mark.slow
@pytest.mark.usefixtures("pids")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_copy_of_the_parent_leaves_its_processes_alone() -> None:
    """The copy scores in a process of its own; the parent's lives on, and ends although the copy lives."""
    ending = """
assert live.flush()
import psutil
mine = [c.pid for c in psutil.Process().children()]
pid = os.fork()
if pid == 0:
    live.run()
    assert live.flush()
    assert live.pipeline.stats().rules["judge"].scored == 1
    live.pipeline.shutdown()
    time.sleep(30)
    os._exit(0)
time.sleep(4)
assert [c.pid for c in psutil.Process().children() if c.pid != pid] == mine
live.run()
assert live.flush()
assert live.pipeline.stats().rules["judge"].scored == 2
live.pipeline.shutdown()
print("closed", psutil.pid_exists(mine[0]), flush=True)
os.kill(pid, 9)
"""
    process = program(ending)
    out, errors = process.communicate(timeout=SECONDS)
    assert "closed False" in out, errors


SERVICE = """
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import Rule, Score, scorer
from otel_evals._internal.live.configure import current
from tests.support.traffic import agent_run

@scorer
def judge(run) -> Score:
    return Score(value=1.0, explanation=f"{len(current().config.rules)} rules here")

provider = TracerProvider()
otel_evals.configure(
    rules=[Rule(judge, isolation="process")], destinations=[{"jsonl": {"path": "scores"}}],
    tracer_provider=provider,
)
"""


@pytest.mark.slow
def test_a_module_that_configures_and_scores_is_imported_without_harm(tmp_path: Path) -> None:
    """The scoring process imports the module for its scorer; the call of `configure` has no effect there."""
    (tmp_path / "service.py").write_text(SERVICE)
    code = (
        "import service; service.agent_run(service.provider.get_tracer('x')); import otel_evals;"
        "assert otel_evals.force_flush(); print(otel_evals.stats().rules['judge'].scored)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": f"{PYTHONPATH}{os.pathsep}{tmp_path}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "1\n", done.stderr
    (line,) = (tmp_path / "scores").read_text().splitlines()
    assert "0 rules here" in line


@pytest.mark.slow
def test_a_main_module_that_cannot_be_imported_is_named(tmp_path: Path) -> None:
    """It does its work at once, which fails in the scoring process."""
    (tmp_path / "service.py").write_text(SERVICE)
    main = (
        "import sys, service; print(sys.argv[1]); service.agent_run(service.provider.get_tracer('x'))\n"
        "import otel_evals; otel_evals.force_flush()\n"
        "print(otel_evals.health().losses, otel_evals.stats().rules['judge'].failed)"
    )
    (tmp_path / "main.py").write_text(main)
    done = subprocess.run(
        [sys.executable, "main.py", "argument"],
        env={**os.environ, "PYTHONPATH": f"{PYTHONPATH}{os.pathsep}{tmp_path}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "process_died" in done.stdout
    assert "could not start: IndexError: list index out of range; it imports your main module" in done.stderr
