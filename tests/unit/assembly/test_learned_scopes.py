"""Which instrumentations are trusted to be complete at a root's end."""

from __future__ import annotations

from otel_evals.assembly.learned_scopes import LearnedScopes


def taught(*scopes: str, runs: int = 32) -> LearnedScopes:
    learned = LearnedScopes()
    for _ in range(runs):
        learned.learn(scopes, complete=True)
    return learned


def test_a_scope_is_complete_after_enough_runs_that_were() -> None:
    assert not taught("a", runs=31).complete(["a"])
    assert taught("a", runs=32).complete(["a"])


def test_all_scopes_of_a_run_must_be_known() -> None:
    assert not taught("a").complete(["a", "b"])
    assert taught("a", "b").complete(["a", "b"])


def test_what_came_late_once_is_never_complete_again() -> None:
    learned = taught("a", "b")
    learned.learn(["a"], complete=False)
    for _ in range(100):
        learned.learn(["a"], complete=True)
    assert not learned.complete(["a"])
    assert learned.complete(["b"])


def test_a_late_first_run_is_remembered() -> None:
    learned = LearnedScopes()
    learned.learn(["a"], complete=False)
    for _ in range(32):
        learned.learn(["a"], complete=True)
    assert not learned.complete(["a"])


def test_scopes_beyond_the_bound_are_never_complete() -> None:
    learned = taught(*(f"scope-{index}" for index in range(1_000)))
    for _ in range(32):
        learned.learn(["one more"], complete=True)
    assert not learned.complete(["one more"])
    assert learned.complete(["scope-7"])
