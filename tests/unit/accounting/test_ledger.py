"""The ledger: counters and trace log are told together, and say the same."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals import Rule, Run, sampling, scorer
from otel_evals._internal.accounting.ledger import Ledger, LoggedEvaluation
from otel_evals._internal.sampling.decide import Decider, RunDecisions
from otel_evals.model import Loss, ScoredRun
from tests.support.runs import a_run
from tests.support.scored import OUTCOMES, evaluation


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
    found = trace.evaluation(rule, RUN.root_span_id)
    assert found is not None
    return found.status, found.reason


def of_run(name: str, outcome: str) -> object:
    return evaluation(name, OUTCOMES[outcome], trace_id=RUN.trace_id, span_id=RUN.root_span_id)


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


@pytest.mark.parametrize(
    ("outcome", "end"),
    [
        ("keyword_coverage", ("scored", None)),
        ("tool_call_accuracy", ("not_scored", "no_tool_calls")),
        ("answer_relevancy", ("failed", "timeout")),
        ("tone", ("dropped", "queue_full")),
    ],
)
def test_every_end_is_counted_and_logged(outcome: str, end: tuple[str, str | None]) -> None:
    told = ledger()
    decided(told)
    told.ended("cheap", of_run("cheap", outcome))  # type: ignore[arg-type]  # an Evaluation
    assert logged(told, "cheap") == end
    stats = told.stats().rules["cheap"]
    counted = stats.scored if end[0] == "scored" else getattr(stats, end[0])[end[1]]
    assert (counted, told.pending, told.stats().check()) == (1, 0, [])


def test_into_the_store_and_back() -> None:
    told = ledger()
    decided(told)
    told.stored(RUN, "cheap", "shutdown")
    assert logged(told, "cheap") == ("stored", "shutdown")
    assert (told.pending, told.stats().rules["cheap"].stored) == (0, 1)
    told.resumed(RUN, "cheap", sampling.Chance(1.0))
    assert logged(told, "cheap") == ("queued", None)
    assert (told.pending, told.stats().rules["cheap"].resumed) == (1, 1)
    assert told.stats().check() == []


LOSSES = st.builds(
    Loss,
    what=st.sampled_from(["run", "span", "log"]),
    reason=st.sampled_from(["unreadable", "span_late"]),
    trace_id=st.sampled_from(["", RUN.trace_id]),
    count=st.integers(1, 5),
)


@given(st.lists(LOSSES))
def test_losses_are_counted_as_what_they_are_and_logged_where_the_trace_is_known(losses: list[Loss]) -> None:
    told = ledger()
    for loss in losses:
        told.lost(loss)
    stats = told.stats()
    runs, others, of_trace = Counter[str](), Counter[str](), Counter[str]()
    for loss in losses:
        (runs if loss.what == "run" else others)[loss.reason] += loss.count
        if loss.trace_id:
            of_trace[loss.reason] += loss.count
    assert (stats.ignored, stats.losses, stats.seen) == (runs, others, runs.total())
    assert stats.check() == []
    trace = told.trace_log.get(RUN.trace_id)
    assert (trace.ignored if trace else None) == (of_trace or None)


def test_what_was_read_and_what_was_delivered_stands_in_the_trace_log() -> None:
    told = ledger()
    told.trace_log.assembled(RUN.trace_id, 5, [RUN])
    told.trace_log.delivered("jsonl", [ScoredRun(run=RUN)], "exported")
    trace = told.trace_log.get(RUN.trace_id)
    assert trace is not None
    assert (trace.spans, trace.runs, trace.deliveries) == (5, 1, (("jsonl", "exported"),))


def test_a_run_that_waits_with_its_conversation_is_logged_once() -> None:
    told = ledger()
    waits = LoggedEvaluation("cheap", RUN.root_span_id, "awaiting_idle")
    for _ in range(2):
        told.trace_log.awaits_idle(RUN, [waits])
    trace = told.trace_log.get(RUN.trace_id)
    assert trace is not None
    assert trace.evaluations == (waits,)
    assert told.pending == 0


def test_refused_items_stand_in_the_stats() -> None:
    assert ledger().stats(refused=4).losses == {"intake_full": 4}
