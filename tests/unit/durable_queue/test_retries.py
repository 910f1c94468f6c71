"""Retries from the store: what is worth another attempt, after how long, and when it is given up."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.durable_queue import retries
from otel_evals._internal.durable_queue.stored_run import RunStatus, StoredRun, Task, Undelivered
from otel_evals.model import Dropped, NotScored, Outcome, Score, ScorerFailure

FAILED = ScorerFailure(error_type="KeyError", message="x")
UNAVAILABLE = ScorerFailure(error_type="JudgeUnavailableError", message="503")
BROKE = ScorerFailure(error_type="BudgetExceededError", message="$1 a day")
FULL = Dropped(reason="queue_full")
TASKS = tuple(Task(name, "2" * 16, 1.0, "always()") for name in "abc")


def run(attempts: int = 0) -> StoredRun:
    return StoredRun("1" * 32, (), {}, RunStatus(tasks=TASKS, attempts=attempts))


@pytest.mark.parametrize(
    ("outcome", "attempts", "again"),
    [
        (Score(value=1.0), 0, False),
        (NotScored(reason="x"), 0, False),
        (FULL, 99, True),
        (UNAVAILABLE, 99, True),
        (BROKE, 0, False),
        (FAILED, 0, True),
        (FAILED, 1, True),
        (FAILED, 2, False),
    ],
)
def test_what_may_succeed_later(outcome: Outcome, attempts: int, again: bool) -> None:
    """Three attempts are made; what is no fault of the run does not count as one."""
    assert retries.may_succeed_later(RunStatus(attempts=attempts), outcome, attempts=3) is again


def test_a_failure_is_told_on_one_line() -> None:
    assert retries.failure_of(FAILED) == "KeyError: x"
    assert len(retries.failure_of(ScorerFailure(error_type="E", message="x" * 9_999))) == 500
    assert retries.failure_of(Score(value=1.0)) == retries.failure_of(FULL) == ""


@given(st.permutations([(0, FAILED), (1, UNAVAILABLE), (2, FULL)]), st.integers(0, 3))
def test_a_run_waits_for_the_longest_of_its_delays(ended: list[tuple[int, Outcome]], attempts: int) -> None:
    postponed = run(attempts)
    for position, outcome in ended:
        retries.postpone(postponed, position, outcome)
    assert postponed.delay == max(retries.UNAVAILABLE_SECONDS, 5.0 * 2**attempts)
    before = time.time()
    status = retries.settled(postponed)
    assert before + postponed.delay <= status.due <= time.time() + postponed.delay
    assert (status.free, status.state, status.left) == (True, "open", (0, 1, 2))
    assert status.attempts == attempts + 1, "one attempt, however many of its tasks failed"
    assert status.reason in ("KeyError: x", "JudgeUnavailableError: 503")


@pytest.mark.parametrize(("outcome", "delay"), [(UNAVAILABLE, 30.0), (FULL, 0.0)])
def test_what_is_no_fault_of_the_run_costs_no_attempt(outcome: Outcome, delay: float) -> None:
    postponed = run(2)
    retries.postpone(postponed, 1, outcome)
    status = retries.settled(postponed)
    assert (status.attempts, status.left, postponed.delay) == (2, (1,), delay)


def test_a_run_is_done_when_nothing_is_left_and_a_dead_letter_when_it_failed_for_good() -> None:
    done = retries.settled(run(2))
    assert (done.state, done.attempts, done.left, done.undelivered, done.reason) == ("done", 0, None, (), "")
    failed = run()
    failed.failed = "KeyError: x"
    status = retries.settled(failed)
    assert (status.state, status.reason, status.free) == ("dead_letter", "KeyError: x", False)


def test_what_was_not_delivered_is_kept_with_its_evaluations() -> None:
    unsent = run()
    unsent.undelivered = [Undelivered("2" * 16, ("memory",), ({"evaluation_id": "e"},))]
    status = retries.settled(unsent)
    assert (status.free, status.left, status.undelivered) == (True, (), tuple(unsent.undelivered))


def test_a_run_whose_rule_is_not_here_is_free_for_another_process() -> None:
    status = retries.absent(RunStatus(tasks=TASKS))
    assert (status.free, status.reason, status.tasks) == (True, retries.ABSENT, TASKS)
    assert status.due > time.time() + retries.ABSENT_SECONDS - 5
