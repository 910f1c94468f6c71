"""Rules of scope `conversation` with a store: whatever ends the process, conversations are judged whole."""

from __future__ import annotations

import signal
import sqlite3
from pathlib import Path

import pytest

from otel_evals.destinations import read_jsonl
from tests.support.programs import run_program

PROGRAM = """
import asyncio, os, signal, sys, time
import otel_evals
from opentelemetry.sdk.trace import TracerProvider
from otel_evals import Rule
from otel_evals._internal.scoring.scorer import scorer
from tests.support.traffic import agent_run

store, scores = sys.argv[1:3]

@scorer(version="1")
async def turns(run) -> float:
    await asyncio.sleep(float(os.environ.get("TAKES", "0")))
    return len(run.turns) / 10

provider = TracerProvider()
pipeline = otel_evals.configure(
    rules=[Rule(turns, scope="conversation", idle=float(os.environ.get("IDLE", "0.6")))
           if "SCOPE" not in os.environ else Rule(turns)],
    destinations=[{"jsonl": {"path": scores}}], tracer_provider=provider,
    store=store, store_lease=0.6, grace=0.05, shutdown_timeout=5,
)
tracer = provider.get_tracer("app")

def say(conversation):
    agent_run(tracer, during=lambda span: span.set_attribute("gen_ai.conversation.id", conversation))

def wait(done):
    end = time.monotonic() + 100
    while not done(otel_evals.stats()):
        assert time.monotonic() < end, otel_evals.stats()
        time.sleep(0.01)

def scored(count):
    wait(lambda s: s.rules["turns@conversation"].scored == count)
    assert otel_evals.force_flush(100_000)
    assert otel_evals.stats().check() == [], otel_evals.stats()
"""


def run(tmp_path: Path, ending: str, code: int = 0, **environment: str) -> None:
    """A process with the store and the scores file of this test."""
    run_program(PROGRAM + ending, tmp_path, code, **environment)


def judged(tmp_path: Path) -> list[tuple[str, int, int]]:
    """Conversation, number of turns and revision of each evaluation in the scores file."""
    return [
        (evaluation["conversation_id"], round(evaluation["value"] * 10), evaluation["revision"])
        for record in read_jsonl(tmp_path / "scores.jsonl")
        for evaluation in record["evaluations"]
    ]


def rows(tmp_path: Path) -> int:
    """Runs in the store that are not done."""
    connection = sqlite3.connect(tmp_path / "runs.db")
    try:
        return int(connection.execute("SELECT count(*) FROM run WHERE state != 'done'").fetchone()[0])
    finally:
        connection.close()


KILL = "os.kill(os.getpid(), signal.SIGKILL)"


@pytest.mark.slow
def test_conversations_that_wait_are_judged_whole_after_kill_9(tmp_path: Path) -> None:
    """By the next process, together with what it sees of them itself, and once."""
    talk = "for name in ('c1', 'c2', 'c1'): say(name)\n"
    run(tmp_path, f"{talk}otel_evals.force_flush()\n{KILL}", code=-signal.SIGKILL, IDLE="300")
    assert rows(tmp_path) == 3
    ending = "wait(lambda s: s.conversations.waiting == 2); say('c2'); otel_evals.shutdown()\n"
    run(tmp_path, f"{ending}assert pipeline.stats().check() == []", IDLE="200")
    assert sorted(judged(tmp_path)) == [("c1", 2, 1), ("c2", 2, 1)]
    assert rows(tmp_path) == 0


@pytest.mark.slow
def test_a_conversation_judged_before_kill_9_is_not_judged_again_until_it_goes_on(tmp_path: Path) -> None:
    """Then whole, with the next revision."""
    run(tmp_path, f"say('c1'); say('c1'); scored(1)\n{KILL}", code=-signal.SIGKILL)
    taken = "wait(lambda s: s.store.taken_over == 2)\n"
    run(
        tmp_path,
        taken + "time.sleep(1.2); assert not otel_evals.stats().conversations.waiting\nsay('c1'); scored(1)",
    )
    assert judged(tmp_path) == [("c1", 2, 1), ("c1", 3, 2)]


@pytest.mark.slow
def test_a_conversation_being_scored_at_kill_9_is_scored_once(tmp_path: Path) -> None:
    talk = "say('c1'); say('c1'); wait(lambda s: s.rules['turns@conversation'].pending == 1)\n"
    run(tmp_path, f"{talk}time.sleep(0.5)\n{KILL}", code=-signal.SIGKILL, TAKES="30")
    run(tmp_path, "scored(1); time.sleep(1.2); scored(1)")
    assert judged(tmp_path) == [("c1", 2, 1)]


@pytest.mark.slow
def test_what_cannot_be_scored_before_leaving_is_scored_by_the_next_process(tmp_path: Path) -> None:
    """Nothing else stays in the store."""
    leave = "otel_evals.shutdown(2_000); s = pipeline.stats(); assert s.check() == [], s\n"
    leave += "assert s.rules['turns@conversation'].stored == 1, s"
    run(tmp_path, f"say('c1'); say('c1'); time.sleep(0.2)\n{leave}", TAKES="30", IDLE="300")
    assert rows(tmp_path) == 1
    run(tmp_path, "scored(1)")
    assert judged(tmp_path) == [("c1", 2, 1)]


@pytest.mark.slow
def test_a_process_without_the_rule_leaves_conversations_to_one_that_has_it(tmp_path: Path) -> None:
    run(tmp_path, f"say('c1'); otel_evals.force_flush()\n{KILL}", code=-signal.SIGKILL, IDLE="300")
    other = "wait(lambda s: s.store.taken_over == 1); otel_evals.force_flush()"
    run(tmp_path, other, SCOPE="run")
    connection = sqlite3.connect(tmp_path / "runs.db")
    found = connection.execute("SELECT state, owner, reason FROM run").fetchall()
    connection.execute("UPDATE run SET due = 0")
    connection.commit()
    connection.close()
    assert found == [("open", None, "its rule is not configured here")]
    run(tmp_path, "wait(lambda s: s.conversations.waiting == 1); otel_evals.shutdown()", IDLE="300")
    assert judged(tmp_path) == [("c1", 1, 1)]


@pytest.mark.slow
def test_conversations_that_wait_are_judged_when_the_program_ends(tmp_path: Path) -> None:
    run(tmp_path, "say('c1'); say('c1')", IDLE="300")
    assert judged(tmp_path) == [("c1", 2, 1)]
    assert rows(tmp_path) == 0


@pytest.mark.slow
def test_evaluations_in_the_file_but_not_known_as_delivered_are_not_sent_twice(tmp_path: Path) -> None:
    """The destination has the conversation's score, the store does not know: the next process asks it."""
    forgetful = "pipeline.engine._store._settle = lambda run: None  # what the kill would cut off\n"
    run(tmp_path, f"{forgetful}say('c1'); scored(1); time.sleep(0.3)\n{KILL}", code=-signal.SIGKILL)
    run(tmp_path, "wait(lambda s: s.store.taken_over >= 2); time.sleep(1.5)")
    assert judged(tmp_path) == [("c1", 1, 1)]
