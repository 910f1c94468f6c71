"""The store, end to end: what is sampled is scored, whatever ends the process, under the same ids."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

from otel_evals import Rule, Run, sampling
from otel_evals.destinations import read_jsonl
from otel_evals.errors import DestinationError, JudgeUnavailableError
from otel_evals.scorers import Scorer, scorer
from tests.support import PYTHONPATH
from tests.support.programs import run_program
from tests.support.traffic import Live, agent_run
from tests.support.waits import SECONDS, eventually

PROGRAM = """
import asyncio, dataclasses, os, signal, sys, time
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import Rule
from otel_evals._internal.scoring.scorer import scorer
from tests.support.traffic import agent_run

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
    tracer_provider=provider, store=store, store_lease=0.6,
    grace=float(os.environ.get("GRACE", "0.05")), shutdown_timeout=5,
)
tracer = provider.get_tracer("app")

def issue(n, question="Where is order A-1001?"):
    return [agent_run(tracer, question) for _ in range(n)]

def wait(done):
    end = time.monotonic() + 100
    while not done(otel_evals.stats()):
        assert time.monotonic() < end, otel_evals.stats()
        time.sleep(0.01)

def report():
    stats = otel_evals.stats()
    assert stats.check() == [], stats
    print(stats.rules["slow"], dataclasses.asdict(stats.store), flush=True)
"""


def run(tmp_path: Path, ending: str, code: int = 0, **environment: str) -> subprocess.CompletedProcess[str]:
    """A process with the store and the scores file of this test."""
    return run_program(PROGRAM + ending, tmp_path, code, **environment)


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
ALL_WRITTEN = "wait(lambda s: s.store.written == 20)\n"


@pytest.mark.slow
def test_after_kill_9_nothing_is_lost_and_nothing_is_doubled(tmp_path: Path) -> None:
    """Twenty runs are in the store, some scored, some not, when the process is killed; the next goes on."""
    run(tmp_path, f"issue(20)\n{ALL_WRITTEN}time.sleep(0.2)\n{KILL}", code=-signal.SIGKILL)
    taken_over = left(tmp_path)["open"]
    assert taken_over > 0
    ending = f"wait(lambda s: s.store.taken_over == {taken_over})\ntime.sleep(0.1); report()"
    run(tmp_path, ending)
    after = delivered(tmp_path)
    assert len(after) == 40
    assert set(after.values()) == {1}
    assert left(tmp_path) == {"done": 20}


@pytest.mark.slow
def test_a_process_killed_between_delivering_and_saying_so_doubles_nothing(tmp_path: Path) -> None:
    """The destination has the scores, the store does not know: the next process asks it."""
    ending = f"""
pipeline.engine._store._settle = lambda run: None  # what the kill would cut off
issue(20)
wait(lambda s: s.rules['slow'].scored == 20 and s.store.written == 20)
otel_evals.force_flush()
{KILL}"""
    run(tmp_path, ending, code=-signal.SIGKILL)
    assert len(delivered(tmp_path)) == 40
    assert left(tmp_path) == {"open": 20}
    run(tmp_path, "wait(lambda s: s.store.taken_over == 20); time.sleep(0.3); report()")
    assert set(delivered(tmp_path).values()) == {1}
    assert left(tmp_path) == {"done": 20}


@pytest.mark.slow
def test_a_process_killed_before_the_rules_decision_is_written_doubles_nothing(tmp_path: Path) -> None:
    """Scored and delivered while the file has but the spans: the next process asks the destination, too."""
    ending = f"""
write = pipeline.engine._store._writer.save
pipeline.engine._store._writer.save = lambda run: run.row is None and write(run)  # as if killed
issue(20)
wait(lambda s: s.rules['slow'].scored == 20 and s.store.written == 20)
otel_evals.force_flush()
{KILL}"""
    run(tmp_path, ending, code=-signal.SIGKILL, GRACE="0.5")
    assert len(delivered(tmp_path)) == 40
    assert left(tmp_path) == {"open": 20}
    run(tmp_path, "wait(lambda s: s.rules['slow'].scored == 20 == s.store.taken_over); report()")
    assert set(delivered(tmp_path).values()) == {1}
    assert left(tmp_path) == {"done": 20}


@pytest.mark.slow
def test_a_run_whose_grace_is_not_over_survives_kill_9(tmp_path: Path) -> None:
    """Its spans are in the store as soon as its root has ended; the next process asks the rules about it."""
    ending = f"issue(10)\nwait(lambda s: s.store.written == 10)\n{KILL}"
    run(tmp_path, ending, code=-signal.SIGKILL, GRACE="30")
    assert delivered(tmp_path) == {}
    run(tmp_path, "wait(lambda s: s.rules['slow'].scored == 10); report()")
    assert len(delivered(tmp_path)) == 20
    assert set(delivered(tmp_path).values()) == {1}
    assert left(tmp_path) == {"done": 10}


def test_what_no_rule_picks_does_not_stay_in_the_store(tmp_path: Path) -> None:
    """A condition that is known only once the run is whole decides against it."""
    with Live(Rule(fine, sample=sampling.errors()), store=tmp_path / "runs.db", grace=0.2) as live:
        live.run()
        wait(live, lambda s: s.store.written == 1)
        stats = wait(live, lambda s: s.rules["fine"].not_sampled)
        assert stats.check() == []
        live.flush()
    assert left(tmp_path) == {}


@pytest.mark.slow
def test_what_cannot_be_scored_before_leaving_is_scored_by_the_next_process(tmp_path: Path) -> None:
    """Shutdown leaves the rest in the store and counts it as stored, not as dropped."""
    ending = "issue(20); wait(lambda s: s.rules['fast'].scored == 20)\n"
    ending += "otel_evals.shutdown(2_000); stats = pipeline.stats()\n"
    ending += "assert stats.check() == [], stats; assert stats.rules['slow'].stored == 20, stats\n"
    ending += "assert stats.rules['slow'].dropped == {} and stats.rules['fast'].scored == 20, stats"
    run(tmp_path, ending, TAKES="30")
    assert len(delivered(tmp_path)) == 20
    run(tmp_path, "wait(lambda s: s.rules['slow'].scored == 20); report()")
    assert set(delivered(tmp_path).values()) == {1}
    assert len(delivered(tmp_path)) == 40
    assert left(tmp_path) == {"done": 20}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="needs SIGSTOP")
def test_a_process_that_stood_still_past_its_lease_delivers_under_no_other_id(tmp_path: Path) -> None:
    """Another one took its runs over: what both deliver has the same ids and revisions."""
    ending = """
issue(3); wait(lambda s: s.store.written == 3)
print("written", flush=True)
wait(lambda s: not s.rules["slow"].pending and s.store.lease_lost)
assert otel_evals.force_flush(100_000)
report()"""
    arguments = [
        sys.executable,
        "-c",
        PROGRAM + ending,
        str(tmp_path / "runs.db"),
        str(tmp_path / "scores.jsonl"),
    ]
    first = subprocess.Popen(
        arguments,
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "TAKES": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == "written\n"
        first.send_signal(signal.SIGSTOP)
        run(
            tmp_path,
            "wait(lambda s: s.rules['slow'].scored == 3); print(otel_evals.force_flush(100_000)); report()",
        )
        taken_over = delivered(tmp_path)
        first.send_signal(signal.SIGCONT)
        _, said = first.communicate(timeout=SECONDS)
    finally:
        first.kill()
    assert first.returncode == 0, said
    assert len(taken_over) == 6
    assert set(delivered(tmp_path)) == set(taken_over)


@pytest.mark.slow
def test_two_processes_share_a_file_and_no_run_is_scored_twice(tmp_path: Path) -> None:
    """Both write and both take over what a third one left when it was killed."""
    run(tmp_path, f"issue(20)\n{ALL_WRITTEN}{KILL}", code=-signal.SIGKILL, TAKES="30")
    ending = "issue(30); wait(lambda s: s.rules['slow'].scored >= 30); time.sleep(1.5); report()"
    both = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                PROGRAM + ending,
                str(tmp_path / "runs.db"),
                str(tmp_path / "scores.jsonl"),
            ],
            env={**os.environ, "PYTHONPATH": PYTHONPATH, "TAKES": "0.05"},
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for process in both:
        _, errors = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, errors
    assert set(delivered(tmp_path).values()) == {1}
    assert len(delivered(tmp_path)) == 2 * 80
    assert left(tmp_path) == {"done": 80}


@pytest.mark.slow
def test_a_run_that_ends_every_process_is_set_aside_and_the_others_are_scored(tmp_path: Path) -> None:
    """The poison run is tried more and more alone, until it has ended four processes."""
    ending = "issue(3); issue(1, 'poison'); issue(3); time.sleep(9)"
    run(tmp_path, ending, code=-signal.SIGKILL)
    for _ in range(3):
        run(tmp_path, "time.sleep(9)", code=-signal.SIGKILL)
    run(tmp_path, "wait(lambda s: True); time.sleep(2.5); report()")
    assert left(tmp_path) == {"done": 6, "dead_letter": 1}
    assert set(delivered(tmp_path).values()) == {1}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_its_own_place_in_the_store(tmp_path: Path) -> None:
    """Parent and child each write and score their own runs, once."""
    ending = """
issue(5)
wait(lambda s: s.store.written == 5)
pids = []
for _ in range(3):
    issue(2)
    pids.append(os.fork())
    if pids[-1] == 0:
        issue(5)
        assert otel_evals.force_flush(100_000)
        otel_evals.shutdown()
        os._exit(0)
assert [os.waitpid(pid, 0)[1] for pid in pids] == [0, 0, 0]
assert otel_evals.force_flush(100_000)
assert otel_evals.stats().store.lease_lost == 0
report()"""
    run(tmp_path, ending)
    assert set(delivered(tmp_path).values()) == {1}
    assert len(delivered(tmp_path)) == 2 * (5 + 3 * 2 + 3 * 5)
    assert left(tmp_path) == {"done": 26}
    connection = sqlite3.connect(tmp_path / "runs.db")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


@pytest.mark.slow
def test_scoring_goes_on_when_the_disk_is_full(tmp_path: Path) -> None:
    """No file may grow any more: runs are scored without the store, counted, and the log says so once."""
    ending = """
import logging, resource
logging.basicConfig()
issue(2); wait(lambda s: s.store.written == 2)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
import otel_evals._internal.deliver.jsonl as jsonl
issue(10); wait(lambda s: s.rules["fast"].scored == 12 and s.store.not_written.get("failed", 0) >= 1)
wait(lambda s: s.rules["slow"].scored == 12)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
issue(3); wait(lambda s: s.store.written >= 5)
assert otel_evals.force_flush(100_000)
report()"""
    done = run(tmp_path, ending)
    assert done.stderr.count("scoring continues without it") == 1, done.stderr
    assert done.stderr.count("is in use again") == 1, done.stderr
    assert set(delivered(tmp_path).values()) == {1}
    assert len(delivered(tmp_path)) == 30


# --- in this process ---


@scorer(inline=True, version="1")
def fine(run: Run) -> float:
    return 1.0


def flaky(error: Exception, times: int) -> Scorer:
    """A scorer that raises the first times."""
    raised = [0]

    async def judge(run: Run) -> float:
        raised[0] += 1
        if raised[0] <= times:
            raise error
        return 0.5

    return scorer(id="flaky", version="1")(judge)


def wait(live: Live, done: Any) -> Any:
    """The counters, once they say so."""
    return eventually(live.pipeline.stats, ready=done)


def test_a_judge_that_is_down_loses_nothing_and_burns_no_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However often it was unavailable, the run is scored once it is back; then it is one evaluation."""
    monkeypatch.setattr("otel_evals._internal.durable_queue.retries.UNAVAILABLE_SECONDS", 0.05)
    rules = (Rule(flaky(JudgeUnavailableError("503"), 5), attempts=1), Rule(fine))
    with Live(*rules, store=tmp_path / "runs.db", store_attempts=2) as live:
        live.run()
        stats = wait(live, lambda s: s.rules["flaky"].scored == 1)
        assert stats.rules["flaky"].stored == stats.rules["flaky"].resumed == 5
        assert stats.rules["fine"].scored == 1
        assert stats.check() == []
        live.flush()
        assert sorted(e.scorer_id for e in live.scored.evaluations) == ["fine", "flaky"]
    assert left(tmp_path) == {"done": 1}


def test_a_scorer_that_keeps_failing_makes_a_dead_letter_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Failures burn attempts; the last one is delivered as what it is, and people can look at the run."""
    monkeypatch.setattr("otel_evals._internal.durable_queue.retries._FIRST_RETRY", 0.05)
    with Live(
        Rule(flaky(KeyError("no such order"), 99)), store=tmp_path / "runs.db", store_attempts=2
    ) as live:
        live.run()
        stats = wait(live, lambda s: s.rules["flaky"].failed)
        assert stats.rules["flaky"].failed == {"KeyError": 1}
        assert stats.rules["flaky"].stored == 1
        live.flush()
        (evaluation,) = live.scored.evaluations
        assert evaluation.status == "failed"
    connection = sqlite3.connect(tmp_path / "runs.db")
    assert connection.execute("SELECT state, attempts, reason FROM run").fetchall() == [
        ("dead_letter", 1, "KeyError: 'no such order'")
    ]
    connection.close()


def test_a_burst_beyond_the_queue_waits_in_the_store(tmp_path: Path) -> None:
    """Without a store such runs are dropped; with one they are scored when there is room."""

    async def slowly(run: Run) -> float:
        await asyncio.sleep(0.01)
        return 1.0

    rule = Rule(scorer(id="slowly", version="1")(slowly), concurrency=4)
    with Live(rule, store=tmp_path / "runs.db", queue_size=8, span_attributes=False) as live:
        for _ in range(100):
            live.run()
        stats = wait(live, lambda s: s.rules["slowly"].scored == 100)
        assert stats.rules["slowly"].dropped == {}
        assert stats.rules["slowly"].stored == stats.rules["slowly"].resumed > 0
        assert stats.check() == []
        live.flush()
        assert len({e.evaluation_id for e in live.scored.evaluations}) == len(live.scored.evaluations) == 100


class Unreachable:
    """A destination that is down until told otherwise."""

    name = "unreachable"

    def __init__(self) -> None:
        self.up = False
        self.got: list[str] = []

    async def export(self, batch: Any) -> None:
        if not self.up:
            raise DestinationError("connection refused", retryable=True)
        self.got += [e.evaluation_id for scored in batch for e in scored.evaluations]

    async def shutdown(self) -> None:
        """Nothing is held."""


def test_what_a_destination_did_not_take_is_delivered_by_the_next_process_without_scoring_again(
    tmp_path: Path,
) -> None:
    """Only the destination that lacks it gets it, and no scorer runs twice."""
    calls: list[str] = []

    def count(run: Run) -> float:
        calls.append(run.trace_id)
        return 1.0

    rule = Rule(scorer(id="count", version="1", inline=True)(count))
    scores = {"jsonl": {"path": tmp_path / "scores.jsonl"}}
    down, up = Unreachable(), Unreachable()
    up.up = True
    store = tmp_path / "runs.db"
    with Live(rule, store=store, destinations=[scores, down]) as live:
        live.run()
        live.pipeline.shutdown(1_500)
    assert len(calls) == 1
    with Live(rule, store=store, destinations=[scores, up]) as live:
        eventually(lambda: up.got)
        live.flush()
    assert len(calls) == 1
    assert len(up.got) == 1
    assert set(delivered(tmp_path).values()) == {1}
    assert left(tmp_path) == {"done": 1}


def test_scoring_goes_on_without_a_store_that_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A broken file costs durability, said once, and nothing else."""
    store = tmp_path / "runs.db"
    store.write_bytes(b"this is no database" * 100)
    with Live(Rule(fine), store=store) as live:
        for _ in range(3):
            live.run()
        stats = wait(live, lambda s: s.rules["fine"].scored == 3 and s.store.not_written.get("unusable") == 3)
        assert stats.check() == []
    assert sum("scoring continues without it" in r.message for r in caplog.records) == 1


def test_a_full_store_makes_room_at_the_cost_of_the_oldest_and_counts_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Runs that nobody scores now are evicted from the oldest on; the file stays within its bound."""
    rule = Rule(flaky(JudgeUnavailableError("503"), 10_000), attempts=1)
    with Live(rule, store=tmp_path / "runs.db", store_max_bytes=2**20, span_attributes=False) as live:
        for _ in range(40):
            live.run(question="x" * 30_000)
            time.sleep(0.02)
        stats = wait(live, lambda s: s.store.evicted.get("evicted_size", 0) > 0)
        live.flush()
        stats = live.pipeline.stats()
        assert stats.check() == []
        assert (tmp_path / "runs.db").stat().st_size < 2 * 2**20
        assert stats.rules["flaky"].stored + sum(stats.rules["flaky"].failed.values()) == 40
        count = stats.store.evicted["evicted_size"]
        assert live.pipeline.health().losses == {"runs in the store (evicted_size)": count}
    assert f"in total: {count} runs in the store (evicted_size)" in caplog.text


def test_what_waits_too_long_in_the_store_is_counted_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that its judge never took is a loss like any other, and told like any other."""
    monkeypatch.setattr("otel_evals._internal.durable_queue.queue_file._UPKEEP_SECONDS", 0.05)
    rule = Rule(flaky(JudgeUnavailableError("503"), 10_000), attempts=1)
    with Live(rule, store=tmp_path / "runs.db", store_max_age=0.3) as live:
        for _ in range(3):
            live.run()
        wait(live, lambda s: s.rules["flaky"].stored == 3)
        assert live.pipeline.health().losses == {}
        wait(live, lambda s: s.store.evicted.get("evicted_age") == 3)
        assert live.pipeline.health().losses == {"runs in the store (evicted_age)": 3}
    assert "in total: 3 runs in the store (evicted_age)" in caplog.text
    assert left(tmp_path) == {}


def test_a_late_span_scores_the_run_again_under_the_same_id(tmp_path: Path) -> None:
    """The second evaluation knows what the late span tells, and says that it is revision 2."""

    def tools(run: Run) -> float:
        return len(run.tool_calls) / 10

    rule = Rule(scorer(id="tools", version="1", inline=True)(tools))
    with Live(rule, store=tmp_path / "runs.db", evaluation_spans="same_trace") as live:
        late: list[Any] = []

        def begin(root: Any) -> None:
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "late"}
            late.append(live.tracer.start_span("execute_tool late", attributes=attributes))

        agent_run(live.tracer, during=begin)
        wait(live, lambda s: s.rules["tools"].scored == 1)
        late[0].end()
        stats = wait(live, lambda s: s.rules["tools"].scored == 2)
        assert stats.rules["tools"].resumed == 1
        assert stats.losses == {}
        assert stats.check() == []
        live.flush()
        first, second = live.scored.evaluations
        assert first.evaluation_id == second.evaluation_id
        assert (first.revision, second.revision) == (1, 2)
        assert (first.outcome.value, second.outcome.value) == (0.1, 0.2)  # type: ignore[union-attr]
        live.provider.force_flush()
        revisions = [
            s.attributes["otel_evals.evaluation.revision"]
            for s in live.exported.get_finished_spans()
            if s.name == "evaluate tools"
        ]
        assert revisions == [1, 2]
    assert left(tmp_path) == {"done": 1}


def test_late_spans_beyond_the_limit_of_a_trace_are_counted(tmp_path: Path) -> None:
    with Live(Rule(fine), store=tmp_path / "runs.db", max_spans_per_trace=4) as live:
        late: list[Any] = []
        chat = {"gen_ai.operation.name": "chat"}

        def begin(root: Any) -> None:
            late.extend(live.tracer.start_span("late", attributes=chat) for _ in range(5))

        agent_run(live.tracer, during=begin)
        wait(live, lambda s: s.rules["fine"].scored == 1)
        for span in late:
            span.end()
        wait(live, lambda s: s.losses.get("span_late") == 5)
    assert left(tmp_path) == {"done": 1}


def test_a_late_span_of_a_run_that_is_not_kept_is_counted(tmp_path: Path) -> None:
    """A store that keeps no scored runs cannot score them again."""
    with Live(Rule(fine), store=tmp_path / "runs.db", store_keep=0) as live:
        trace_id = live.run()
        wait(live, lambda s: s.rules["fine"].scored == 1)
        live.flush()
        root = live.span("invoke_agent support")
        above = SpanContext(trace_id, root.context.span_id, False, TraceFlags(1))
        context = set_span_in_context(NonRecordingSpan(above))
        live.tracer.start_span("late", context, attributes={"gen_ai.operation.name": "chat"}).end()
        wait(live, lambda s: s.losses.get("span_late") == 1)
    assert left(tmp_path) == {}


def test_a_cascade_is_decided_after_the_run_was_taken_up_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expensive scorer follows the cheap one's outcome, whenever that comes."""
    monkeypatch.setattr("otel_evals._internal.durable_queue.retries.UNAVAILABLE_SECONDS", 0.05)
    rules = (
        Rule(flaky(JudgeUnavailableError("503"), 1), attempts=1),
        Rule(fine, sample=sampling.below("flaky", 0.7)),
    )
    with Live(*rules, store=tmp_path / "runs.db") as live:
        live.run()
        stats = wait(live, lambda s: s.rules["fine"].scored == 1)
        assert stats.rules["flaky"].resumed == 1
        assert stats.check() == []
        live.flush()
    assert left(tmp_path) == {"done": 1}


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000), st.integers(1, 30), st.floats(0.0, 0.3))
def test_the_books_balance_with_a_store_whatever_fails(seed: int, queue_size: int, broken: float) -> None:
    """Scorers fail, judges are down, queues are full, processes leave: all their counters add up to one."""

    async def judge(run: Run) -> float:
        luck = random.Random(f"{seed}{run.trace_id}").random()
        if luck < broken:
            raise KeyError("no such order")
        if luck < 2 * broken and luck * 1000 % 1 < 0.9:
            raise JudgeUnavailableError("503")
        await asyncio.sleep(luck / 500)
        return luck

    rule = Rule(scorer(id="judge", version="1")(judge), concurrency=8, attempts=1, sample=sampling.ratio(0.8))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.db"
        totals: Counter[str] = Counter()
        seen: set[str] = set()
        for process in range(3):
            with Live(
                rule, store=path, queue_size=queue_size, span_attributes=False, store_attempts=1
            ) as live:
                for _ in range(60 if process == 0 else 0):
                    live.run()
                assert live.pipeline.stats().check() == []
                live.pipeline.force_flush(200)
                assert live.pipeline.stats().check() == []
                live.pipeline.shutdown(20_000)
                stats = live.pipeline.stats()
                assert stats.check() == []
                counters = stats.rules["judge"]
                assert counters.pending == 0
                assert counters.dropped == {}
                totals.update(
                    sampled=counters.sampled,
                    ended=counters.scored + sum(counters.failed.values()),
                    between=counters.stored - counters.resumed,
                )
                ids = [e.evaluation_id for e in live.scored.evaluations]
                assert len(ids) == len(set(ids))
                assert seen.isdisjoint(ids)
                seen.update(ids)
        assert totals["sampled"] == totals["ended"] + totals["between"]
        assert len(seen) == totals["ended"]
        assert left(Path(folder))["open"] == totals["between"]
