"""Which runs are complete at their root's end; test_gather.py has what follows from it."""

from __future__ import annotations

from otel_evals._internal.capture.open_spans import OpenSpansNow
from otel_evals._internal.gather.local_gatherer import CompleteRuns
from otel_evals.model import SpanRecord

ROOT = SpanRecord(trace_id="0" * 31 + "7", span_id="0" * 15 + "1", name="agent", start_time=1)


def taught(*scopes: str, runs: int = 32) -> CompleteRuns:
    learned = CompleteRuns(lambda: OpenSpansNow({}, 0))
    for _ in range(runs):
        learned.learn(scopes, complete=True)
    return learned


def test_a_scope_is_complete_after_enough_runs_that_were() -> None:
    assert not taught("a", runs=31).root_ended(ROOT, ["a"])
    assert taught("a", runs=32).root_ended(ROOT, ["a"])


def test_all_scopes_of_a_run_must_be_known() -> None:
    assert not taught("a").root_ended(ROOT, ["a", "b"])
    assert taught("a", "b").root_ended(ROOT, ["a", "b"])


def test_what_came_late_once_is_never_complete_again() -> None:
    learned = taught("a", "b")
    learned.learn(["a"], complete=False)
    for _ in range(100):
        learned.learn(["a"], complete=True)
    assert not learned.root_ended(ROOT, ["a"])
    assert learned.root_ended(ROOT, ["b"])


def test_a_late_first_run_is_remembered() -> None:
    learned = taught(runs=0)
    learned.learn(["a"], complete=False)
    for _ in range(32):
        learned.learn(["a"], complete=True)
    assert not learned.root_ended(ROOT, ["a"])


def test_scopes_beyond_the_bound_are_never_complete() -> None:
    learned = taught(*(f"scope-{index}" for index in range(1_000)))
    for _ in range(32):
        learned.learn(["one more"], complete=True)
    assert not learned.root_ended(ROOT, ["one more"])
    assert learned.root_ended(ROOT, ["scope-7"])
