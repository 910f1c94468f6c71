"""The ledger of rules and evaluations that wait; `test_counters.py` has all other events."""

from __future__ import annotations

from typing import Any

import pytest

from otel_evals import Rule, Run, sampling, scorer
from otel_evals._internal.accounting.counters import LoggedEvaluation
from otel_evals._internal.accounting.ledger import Ledger, TraceLog
from otel_evals._internal.sampling.algebra import Chance
from otel_evals._internal.sampling.decide import Decider, Decision, RunDecisions
from otel_evals._internal.statistics.sums import Picks
from otel_evals.model import Availability, ScoredRun
from otel_evals.sampling import Sampler
from tests.support.replacing import replace
from tests.support.runs import a_run
from tests.support.scored import OUTCOMES


@scorer(id="cheap", version="1")
def cheap(run: Run) -> float:
    return 1.0


@scorer(id="judge", version="1")
def judge(run: Run) -> float:
    return 1.0


RULES = [Rule(cheap), Rule(judge, sample=sampling.below("cheap", 0.5))]
RUN = a_run()


def ledger() -> Ledger:
    return Ledger([rule.name for rule in RULES])


def decided(told: Ledger) -> tuple[Decider, RunDecisions]:
    decider = Decider(RULES)
    decisions, found = decider.decide(RUN, "run")
    told.accepted(RUN)
    told.decided(RUN, found)
    return decider, decisions


def logged(told: Ledger, rule: str) -> tuple[str, str | None]:
    trace = told.trace_log.get(RUN.trace_id)
    assert trace is not None
    (found,) = (e for e in trace.evaluations if (e.rule, e.span_id) == (rule, RUN.root_span_id))
    return found.status, found.reason


def test_a_rule_that_waits_is_logged_and_not_counted_yet() -> None:
    told = ledger()
    decider, decisions = decided(told)
    assert (logged(told, "cheap"), logged(told, "judge")) == (("queued", None), ("waiting", None))
    assert told.pending == 1
    assert told.stats().rules["judge"].eligible == 0
    told.decided(RUN, decider.follow(decisions, "cheap", OUTCOMES["keyword_coverage"]))
    assert logged(told, "judge") == ("not_sampled", "cascade_not_met")
    assert told.stats().rules["judge"].not_sampled == {"cascade_not_met": 1}
    assert told.stats().check() == []


def test_a_run_that_waits_with_its_conversation_is_logged_once() -> None:
    told = ledger()
    waits = LoggedEvaluation("cheap", RUN.root_span_id, "awaiting_idle")
    for _ in range(2):
        told.trace_log.awaits_idle(RUN, [waits])
    trace = told.trace_log.get(RUN.trace_id)
    assert trace is not None
    assert trace.evaluations == (waits,)
    assert told.pending == 0


@pytest.mark.parametrize(
    ("sampler", "chance", "counted"),
    [
        (sampling.ratio(0.5), Chance(0.5), True),
        (sampling.per_minute(5), Chance(1.0), True),
        (sampling.always(), Chance(1.0), False),
        (sampling.errors(), None, False),
    ],
)
def test_only_decisions_left_to_chance_are_picks(sampler: Sampler, chance: Any, counted: bool) -> None:
    """The sampler check compares them with their probabilities."""
    told = ledger()
    told.decided(RUN, [Decision(Rule(cheap, sample=sampler), "sampled", chance=chance)])
    picks = [row.picks for row in told.picks.changed()]
    assert picks == ([Picks.of(chance.probability, True)] if counted else [])


def test_a_condition_that_raises_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    told = ledger()
    error = ZeroDivisionError("by zero " * 1_000)
    told.decided(RUN, [Decision(RULES[0], "not_sampled", "predicate_failed", error=error)])
    (line,) = caplog.records
    assert line.exc_info is not None
    assert line.exc_info[1] is error
    assert (
        "cheap fails: predicate_failed: its `when` or `sample` raised ZeroDivisionError" in line.getMessage()
    )
    assert len(line.getMessage()) < 600


@pytest.mark.parametrize(("without", "told"), [(0, 1), (1, 0), (127, 0), (128, 1), (129, 0), (256, 1)])
def test_one_in_128_runs_of_an_instrumentation_is_checked_for_content(
    without: int, told: int, caplog: pytest.LogCaptureFixture
) -> None:
    counting = ledger()
    for number in range(260):
        off = {"output": Availability.CAPTURED_OFF} if number == without else {}
        counting.accepted(replace(RUN, scope_name="app", availability=off))
        counting.accepted(replace(RUN, scope_name=f"another {number}", availability={}))
    assert [r.getMessage().startswith("app leaves out output") for r in caplog.records] == [True] * told


def test_more_kinds_of_deliveries_than_are_shared_are_kept_apart() -> None:
    log = TraceLog()
    for number in range(600):
        run = replace(RUN, trace_id=f"{number + 1:032x}")
        log.assembled(run.trace_id, 1, [run])
        log.delivered(f"destination {number}", [ScoredRun(run=run)], "exported")
    for number in range(600):
        trace = log.get(f"{number + 1:032x}")
        assert trace is not None
        assert trace.deliveries == ((f"destination {number}", "exported"),)
