"""The ledger: whatever happens to runs, in any order, is counted and logged once, at every moment."""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import asdict, fields
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from otel_evals import RuleStats, Run, Stats, sampling
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.sampling.algebra import Chance, facts_of_sampler
from otel_evals._internal.sampling.decide import Decision
from otel_evals.model import Dropped, Loss, Score, ScoredRun
from tests.support.replacing import replace
from tests.support.runs import a_run
from tests.support.scored import OUTCOMES, evaluation

NAMES = ("a", "b@agent")
RULES = st.sampled_from(NAMES)
RUN = a_run()
AGENT = replace(RUN, root_span_id="3" * 16)
"""An agent in the same trace."""
RUNS = (RUN, AGENT, replace(RUN, trace_id="4" * 32))
CHANCES = st.sampled_from([Chance(1.0), Chance(0.25), Chance(0.5, known=False), None])
SPLIT = sampling.ratio(0.5)
UNDONE = ("", None, None, None, 0, 0.0, None, False)
"""Of an evaluation: status, reason, chance, value, attempts, duration, effect, whether evidence was cut."""
REASONS = st.sampled_from(["x", "y"])


def a_rule(name: str) -> Any:
    return SimpleNamespace(name=name, when=None, sampling=facts_of_sampler(SPLIT))


class Conservation(RuleBasedStateMachine):
    """Runs come, rules decide, evaluations end, and runs are checked again.

    The ledger's counters and trace log are compared with plain dictionaries after every event.
    """

    @initialize()
    def begin(self) -> None:
        self.ledger = Ledger(NAMES)
        self.runs: dict[str, Any] = {"seen": 0, "eligible": 0, "ignored": Counter(), "losses": Counter()}
        self.rules = {name: asdict(RuleStats()) for name in NAMES}
        self.traces: dict[str, dict[str, Any]] = {}
        self.pending: list[tuple[str, Run]] = []

    def trace(self, trace_id: str) -> dict[str, Any]:
        empty: dict[str, Any] = {
            "spans": 0,
            "runs": 0,
            "ignored": Counter(),
            "evaluations": {},
            "deliveries": (),
        }
        return self.traces.setdefault(trace_id, empty)

    def logged(self, name: str, run: Run, status: str, *rest: Any) -> None:
        """Status, reason and chance replace what is known; the outcome's fields stay."""
        known = self.trace(run.trace_id)["evaluations"]
        known[name, run.root_span_id] = (status, *rest, *known.get((name, run.root_span_id), UNDONE)[3:])

    @rule(
        loss=st.builds(
            Loss,
            st.sampled_from(["run", "span", "log"]),
            REASONS,
            st.sampled_from(["", "4" * 32]),
            st.integers(0, 5),
        )
    )
    def something_is_lost(self, loss: Loss) -> None:
        self.ledger.lost(loss)
        self.runs["ignored" if loss.what == "run" else "losses"][loss.reason] += loss.count
        self.runs["seen"] += loss.count if loss.what == "run" else 0
        if loss.trace_id:
            self.trace(loss.trace_id)["ignored"][loss.reason] += loss.count

    @rule(run=st.sampled_from(RUNS), spans=st.integers(0, 3))
    def a_run_is_read(self, run: Run, spans: int) -> None:
        self.ledger.trace_log.assembled(run.trace_id, spans, [run])
        trace = self.trace(run.trace_id)
        trace["spans"], trace["runs"] = trace["spans"] + spans, trace["runs"] + 1

    @rule(
        run=st.sampled_from(RUNS),
        name=RULES,
        status=st.sampled_from(["sampled", "not_sampled", "waiting"]),
        reason=REASONS,
        chance=CHANCES,
    )
    def a_rule_decides(self, run: Run, name: str, status: Any, reason: str, chance: Chance | None) -> None:
        self.ledger.accepted(run, [(run, [Decision(a_rule(name), status, reason, chance)])])
        self.runs["seen"] += 1
        self.runs["eligible"] += 1
        counts = self.rules[name]
        if status == "waiting":
            return self.logged(name, run, "waiting", None, None)
        counts["eligible"] += 1
        if status == "sampled":
            counts["sampled"] += 1
            counts["pending"] += 1
            self.pending.append((name, run))
            return self.logged(name, run, "queued", None, chance)
        counts["not_sampled"][reason] = counts["not_sampled"].get(reason, 0) + 1
        self.logged(name, run, "not_sampled", reason, chance)
        return None

    @rule(name=RULES, run=st.sampled_from(RUNS), chance=CHANCES)
    def a_run_is_checked_again(self, name: str, run: Run, chance: Chance) -> None:
        self.ledger.resumed(run, name, chance)
        self.rules[name]["resumed"] += 1
        self.rules[name]["pending"] += 1
        self.pending.append((name, run))
        self.logged(name, run, "queued", None, chance)

    @rule(name=st.sampled_from([*NAMES, "new"]), reason=REASONS)
    def a_check_finds_no_run(self, name: str, reason: str) -> None:
        self.ledger.refused(name, reason)
        counts = self.rules.setdefault(name, asdict(RuleStats()))
        counts["eligible"] += 1
        counts["sampled"] += 1
        counts["dropped"][reason] = counts["dropped"].get(reason, 0) + 1

    @precondition(lambda self: self.pending)
    @rule(
        data=st.data(),
        end=st.sampled_from(sorted(OUTCOMES)),
        attempts=st.integers(1, 3),
        effect=st.sampled_from([None, "blocked"]),
    )
    def an_evaluation_ends(self, data: Any, end: str, attempts: int, effect: Any) -> None:
        name, run = data.draw(st.sampled_from(self.pending))
        self.pending.remove((name, run))
        outcome: Any = OUTCOMES[end]
        made = evaluation(name, outcome, trace_id=run.trace_id, span_id=run.root_span_id)
        self.ledger.ended(name, replace(made, attempts=attempts, duration=attempts / 4, effect=effect))
        counts, status = self.rules[name], outcome.status
        counts["pending"] -= 1
        reason = None if status == "scored" else made.reason
        if reason is None:
            counts["scored"] += 1
        else:
            counts[status][reason] = counts[status].get(reason, 0) + 1
        known = self.trace(run.trace_id)["evaluations"]
        chance = known[name, run.root_span_id][2]
        value = outcome.value if status == "scored" else None
        cut = status == "scored" and outcome.evidence_cut
        known[name, run.root_span_id] = (status, reason, chance, value, attempts, attempts / 4, effect, cut)

    @rule(run=st.sampled_from(RUNS), end=st.sampled_from(["exported", "refused"]))
    def a_delivery_ends(self, run: Run, end: str) -> None:
        self.ledger.trace_log.delivered("jsonl", [ScoredRun(run=run)], end)
        if run.trace_id in self.traces:  # a trace that is not known by then was forgotten
            self.traces[run.trace_id]["deliveries"] += (("jsonl", end),)

    @rule(name=st.sampled_from([*NAMES, "new"]))
    def a_rule_is_added(self, name: str) -> None:
        self.ledger.add_rules([name])
        self.rules.setdefault(name, asdict(RuleStats()))

    @invariant()
    def counters_and_trace_log_say_what_happened(self) -> None:
        stats = self.ledger.stats()
        assert stats.check() == []
        assert {key: getattr(stats, key) for key in self.runs} == self.runs
        assert {name: asdict(each) for name, each in stats.rules.items()} == self.rules
        assert self.ledger.pending == len(self.pending)
        assert self.ledger.stats({"intake_full": 3}).losses == {**self.runs["losses"], "intake_full": 3}
        assert len(self.ledger.trace_log) == len(self.traces)
        for trace_id, expected in self.traces.items():
            trace: Any = self.ledger.trace_log.get(trace_id)
            found = {
                (e.rule, e.span_id): (
                    e.status,
                    e.reason,
                    e.chance,
                    e.value,
                    e.attempts,
                    e.duration,
                    e.effect,
                    e.evidence_cut,
                )
                for e in trace.evaluations
            }
            told = trace.spans, trace.runs, trace.ignored or {}, found, trace.deliveries
            assert told == tuple(expected.values())


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
            resumed=4,
            pending=1,
        )
    },
)


def test_a_balance_is_no_violation() -> None:
    assert BALANCED.check() == []
    assert Stats().check() == []
    assert BALANCED.check(ended=True) == ["a: 1 pending"]


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


def sampled(ledger: Ledger) -> None:
    ledger.accepted(RUN, [(RUN, [Decision(a_rule("a"), "sampled")])])


def test_a_snapshot_does_not_change_afterwards() -> None:
    ledger = Ledger(NAMES)
    before = ledger.stats()
    sampled(ledger)
    ledger.lost(Loss("span", "span_late", ""))
    assert before == Stats(rules={name: RuleStats() for name in NAMES})
    assert ledger.stats() != before


@given(st.lists(st.sampled_from(["sampled", "ended", "resumed"]), max_size=12))
def test_progress_is_an_end_or_the_first_that_waits(acts: list[str]) -> None:
    """What a health probe looks at: nothing pending is no standstill, and taking up more is no progress."""
    ledger = Ledger("a")
    for act in acts:
        moved, pending = ledger.moved, ledger.pending
        match act:
            case "sampled" | "resumed":
                before = time.monotonic()
                sampled(ledger) if act == "sampled" else ledger.resumed(RUN, "a", Chance(1.0))
                assert ledger.moved >= before if pending == 0 else ledger.moved == moved
            case "ended" if pending:
                ledger.ended("a", evaluation("a", Dropped(reason="queue_full")))
                assert ledger.last_end == ledger.moved >= moved


def test_snapshots_balance_while_another_thread_counts() -> None:
    ledger, done = Ledger("a"), threading.Event()

    def count() -> None:
        for _ in range(3_000):
            sampled(ledger)
            ledger.ended("a", evaluation("a", Score(value=1.0)))
        done.set()

    thread = threading.Thread(target=count)
    thread.start()
    while not done.wait(0.0001) and thread.is_alive():
        assert ledger.stats().check() == []
    thread.join()
    assert ledger.stats().rules["a"].scored == 3_000
