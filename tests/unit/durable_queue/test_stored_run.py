"""A run's row: whatever its status, it comes back from the file as it was written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals import Rule, scorer
from otel_evals._internal.durable_queue.stored_run import (
    RunStatus,
    StoredRun,
    Task,
    Undelivered,
    load_status,
    merged,
)
from otel_evals._internal.evaluate.queue_interface import ConversationState
from otel_evals.model import SpanRecord
from tests.support.jobs import a_job

NAMES = st.sampled_from(["a", "b@agent", "c@conversation"])
IDS = st.integers(1, 2**64 - 1).map(lambda number: f"{number:016x}")
TASKS = st.builds(
    Task,
    NAMES,
    IDS,
    st.none() | st.floats(0, 1),
    st.text(max_size=20),
    st.sampled_from(["run", "agent", "conversation"]),
)
UNDELIVERED = st.builds(
    Undelivered,
    IDS,
    st.lists(st.text(max_size=8), max_size=2).map(tuple),
    st.lists(st.fixed_dictionaries({"evaluation_id": st.text(max_size=8)}), max_size=2).map(tuple),
)
STATES = st.builds(
    ConversationState, st.dictionaries(NAMES, st.integers(0, 9)), st.lists(NAMES, unique=True).map(tuple)
)
STATUSES = st.builds(RunStatus) | st.builds(
    RunStatus,
    tasks=st.lists(TASKS, max_size=4).map(tuple),
    left=st.none() | st.lists(st.integers(0, 3), unique=True).map(tuple),
    undelivered=st.lists(UNDELIVERED, max_size=2).map(tuple),
)


@given(STATUSES | st.builds(RunStatus, conversation=STATES))
def test_a_status_comes_back_as_it_was(status: RunStatus) -> None:
    assert load_status(status.dump()) == status


@given(st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.text(max_size=9))
def test_columns_are_the_rows_own(attempts: int, crashes: int, revision: int, reason: str) -> None:
    columns: dict[str, Any] = {
        "attempts": attempts,
        "crashes": crashes,
        "revision": revision,
        "reason": reason,
    }
    assert load_status(None, **columns) == RunStatus(**columns)


@pytest.mark.parametrize(
    "jobs", ["", "{}", "[]", "7", '{"tasks": [[1]], "left": null}', '{"conversation": 3}', '{"tasks": 1}']
)
def test_what_cannot_be_read_is_a_value_error(jobs: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be read|Expecting value"):
        load_status(jobs)


def span(number: int, name: str = "") -> SpanRecord:
    return SpanRecord(trace_id="1" * 32, span_id=f"{number:016x}", name=name)


@given(st.lists(st.integers(1, 6), unique=True), st.lists(st.integers(1, 6)))
def test_late_spans_join_once_and_the_later_form_counts(early: list[int], late: list[int]) -> None:
    joined = merged([span(n) for n in early], [span(n, "late") for n in late])
    assert [each.span_id for each in joined] == [span(n).span_id for n in dict.fromkeys([*early, *late])]
    assert {each.span_id for each in joined if each.name == "late"} == {span(n).span_id for n in late}


def test_a_job_is_found_among_the_tasks_by_rule_and_judged_span() -> None:
    @scorer(id="a", version="1")
    def a(run: object) -> float:
        return 1.0

    job = a_job(Rule(a))
    tasks = (
        Task("a", "f" * 16, 1.0, ""),
        Task("b", job.target.span_id, 1.0, ""),
        Task("a", job.target.span_id, 1.0, ""),
    )
    run = StoredRun("1" * 32, (), {}, RunStatus(tasks=tasks))
    assert run.position(job) == 2


def test_an_attempt_begins_with_nothing_of_the_last_one() -> None:
    run = StoredRun("1" * 32, (), {}, RunStatus(attempts=2))
    fresh = replace(run)
    run.postponed, run.reason, run.failed, run.failed_attempt, run.delay = [1], "x", "y", True, 5.0
    run.undelivered = [Undelivered("2" * 16, ("memory",), ())]
    run.begin_attempt()
    names = ("postponed", "reason", "failed", "failed_attempt", "delay", "undelivered", "status")
    assert [getattr(run, name) for name in names] == [getattr(fresh, name) for name in names]
