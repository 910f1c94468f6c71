"""The counters: whatever happens to runs, in whatever order, each is counted once, at every moment."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import fields
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from otel_evals import RuleStats, Stats
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.sampling.algebra import Chance
from otel_evals._internal.sampling.decide import Decision
from otel_evals.model import Dropped, Loss, Outcome, Score
from tests.support.replacing import replace
from tests.support.runs import a_run
from tests.support.scored import OUTCOMES, evaluation

NAMES = ("a", "b@agent")
RULES = st.sampled_from(NAMES)
REASONS = st.sampled_from(["sampled_out", "not_applicable"])
ENDS = st.sampled_from(sorted(OUTCOMES))
RUN = a_run()


class Counters(Ledger):
    """A ledger whose events are reported about one run."""

    def ignore(self, reason: str, count: int = 1) -> None:
        self.lost(Loss("run", reason, "", count))

    def lose(self, reason: str, count: int = 1) -> None:
        self.lost(Loss("span", reason, "", count))

    def accept(self) -> None:
        self.accepted(RUN)

    def skip(self, name: str, reason: str) -> None:
        self.decided(RUN, [Decision(self.rule(name), "not_sampled", reason)])

    def sample(self, name: str) -> None:
        self.decided(RUN, [Decision(self.rule(name), "sampled")])

    def resume(self, name: str) -> None:
        self.resumed(RUN, name, Chance(1.0))

    def settle(self, name: str, outcome: Outcome) -> None:
        self.ended(name, evaluation(name, outcome))

    def store(self, name: str) -> None:
        self.stored(RUN, name, "shutdown")

    @staticmethod
    def rule(name: str) -> Any:
        return SimpleNamespace(name=name, when=None)


class Conservation(RuleBasedStateMachine):
    """Runs come, rules decide, evaluations end or go into the store and come back from it."""

    @initialize()
    def begin(self) -> None:
        self.counters = Counters(NAMES)
        self.pending: Counter[str] = Counter()
        self.ended: dict[str, Counter[str]] = {name: Counter() for name in NAMES}
        self.seen = self.lost = 0

    @rule(reason=st.sampled_from(["trace_not_sampled", "unreadable"]), count=st.integers(0, 5))
    def a_run_is_ignored(self, reason: str, count: int) -> None:
        self.counters.ignore(reason, count)
        self.seen += count

    @rule(count=st.integers(1, 5))
    def spans_are_lost(self, count: int) -> None:
        self.counters.lose("span_late", count)
        self.lost += count

    @rule()
    def a_run_is_eligible(self) -> None:
        self.counters.accept()
        self.seen += 1

    @rule(name=RULES, reason=REASONS)
    def a_rule_does_not_sample(self, name: str, reason: str) -> None:
        self.counters.skip(name, reason)

    @rule(name=RULES)
    def a_rule_samples(self, name: str) -> None:
        self.counters.sample(name)
        self.pending[name] += 1

    @rule(name=RULES)
    def an_evaluation_comes_from_the_store(self, name: str) -> None:
        self.counters.resume(name)
        self.pending[name] += 1

    @precondition(lambda self: any(self.pending.values()))
    @rule(data=st.data(), end=ENDS)
    def an_evaluation_ends(self, data: Any, end: str) -> None:
        name = data.draw(st.sampled_from(sorted(n for n in NAMES if self.pending[n])))
        outcome: Outcome = OUTCOMES[end]
        self.counters.settle(name, outcome)
        self.pending[name] -= 1
        self.ended[name][outcome.status] += 1

    @precondition(lambda self: any(self.pending.values()))
    @rule(data=st.data())
    def an_evaluation_goes_into_the_store(self, data: Any) -> None:
        name = data.draw(st.sampled_from(sorted(n for n in NAMES if self.pending[n])))
        self.counters.store(name)
        self.pending[name] -= 1
        self.ended[name]["stored"] += 1

    @invariant()
    def everything_adds_up(self) -> None:
        stats = self.counters.stats()
        assert stats.check() == []
        assert stats.seen == self.seen
        assert sum(stats.losses.values()) == self.lost
        assert self.counters.pending == sum(self.pending.values())
        for name, each in stats.rules.items():
            assert each.pending == self.pending[name]
            found = Counter(scored=each.scored, stored=each.stored)
            for status in ("not_scored", "failed", "dropped"):
                found[status] = sum(getattr(each, status).values())
            assert +found == +self.ended[name]


TestConservation = Conservation.TestCase
TestConservation.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)

BALANCED = Stats(
    seen=3,
    eligible=2,
    ignored={"unreadable": 1},
    rules={
        "a": RuleStats(
            eligible=2,
            sampled=1,
            not_sampled={"sampled_out": 1},
            scored=1,
            not_scored={"x": 1},
            failed={"KeyError": 1},
            dropped={"queue_full": 1},
            stored=1,
            resumed=5,
            pending=1,
        )
    },
)


def test_a_balance_is_no_violation() -> None:
    assert BALANCED.check() == []
    assert Stats().check() == []


@pytest.mark.parametrize("name", ["seen", "eligible"])
def test_a_run_too_many_is_a_violation(name: str) -> None:
    assert len(replace(BALANCED, **{name: getattr(BALANCED, name) + 1}).check()) == 1  # type: ignore[arg-type]  # an int


@pytest.mark.parametrize("name", [field.name for field in fields(RuleStats)])
def test_an_evaluation_too_many_is_a_violation(name: str) -> None:
    """In whatever column it stands."""
    rule_stats = BALANCED.rules["a"]
    value = getattr(rule_stats, name)
    more = {**value, "another": 1} if isinstance(value, dict) else value + 1
    wrong = replace(BALANCED, rules={"a": replace(rule_stats, **{name: more})})
    assert wrong.check(), name
    assert all(line.startswith("a: ") for line in wrong.check())


def test_a_snapshot_does_not_change_afterwards() -> None:
    counters = Counters(NAMES)
    before = counters.stats()
    counters.accept()
    counters.sample("a")
    counters.lose("span_late")
    assert before == Stats(rules={name: RuleStats() for name in NAMES})
    assert counters.stats() != before


def test_what_the_intake_refused_is_a_loss_as_well() -> None:
    counters = Counters(())
    counters.lose("span_late", 2)
    assert counters.stats().losses == {"span_late": 2}
    assert counters.stats(refused=3).losses == {"span_late": 2, "intake_full": 3}


@given(st.lists(st.sampled_from(["sample", "settle", "store", "resume"]), max_size=12))
def test_progress_is_an_end_or_the_first_that_waits(acts: list[str]) -> None:
    """What a health probe looks at: nothing pending is no standstill, and taking up more is no progress."""
    counters = Counters(("a",))
    for act in acts:
        moved, pending = counters.moved, counters.pending
        match act:
            case "sample" | "resume":
                before = time.monotonic()
                getattr(counters, act)("a")
                assert counters.moved >= before if pending == 0 else counters.moved == moved
            case "settle" if pending:
                counters.settle("a", Dropped(reason="queue_full"))
                assert counters.last_end == counters.moved >= moved
            case "store" if pending:
                counters.store("a")
                assert counters.moved == moved


def test_snapshots_balance_while_another_thread_counts() -> None:
    counters, done = Counters(("a",)), threading.Event()

    def count() -> None:
        for _ in range(3_000):
            counters.accept()
            counters.sample("a")
            counters.settle("a", Score(value=1.0))
        done.set()

    thread = threading.Thread(target=count)
    thread.start()
    while not done.wait(0.0001) and thread.is_alive():
        assert counters.stats().check() == []
    thread.join()
    assert counters.stats().rules["a"].scored == 3_000
