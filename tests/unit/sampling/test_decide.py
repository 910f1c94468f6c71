"""Deciding: which rules sample a run, in what order cascades learn, and that asking changes nothing."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals import Rule, sampling
from otel_evals._internal.sampling.decide import Decider, Decision, RunDecisions
from otel_evals.model import Dropped, NotScored, OperationKind, Outcome, Run, Score, ScorerFailure
from otel_evals.sampling import Chance, Sampler
from otel_evals.scorers import scorer


def rule(name: str, sample: Any = 1.0, **options: Any) -> Rule:
    return Rule(scorer(id=name, version="1", inline=True)(lambda run: 1.0), sample=sample, **options)


def run(trace_id: int = 1, **fields: Any) -> Run:
    return Run(trace_id=f"{trace_id:032x}", root_span_id=f"{1:016x}", root_kind=OperationKind.AGENT, **fields)


def told(decisions: Sequence[Decision]) -> dict[str, tuple[str, str]]:
    return {d.rule.name: (d.status, d.reason) for d in decisions}


LOW, HIGH = Score(value=0.1), Score(value=0.9)


# --- decide ---


def test_rules_decide_by_condition_and_share() -> None:
    rules = [
        rule("all"),
        rule("none", 0.0),
        rule("vip", when=lambda run: run.agent_name == "vip"),
        rule("broken", when=lambda run: 1 / 0),
        rule("agent", scope="agent"),
    ]
    decisions, decided = Decider(rules).decide(run(), "run")
    assert told(decided) == {
        "all": ("sampled", ""),
        "none": ("not_sampled", "sampled_out"),
        "vip": ("not_sampled", "not_applicable"),
        "broken": ("not_sampled", "predicate_failed"),
    }
    (broken,) = [d for d in decided if d.rule.name == "broken"]
    assert isinstance(broken.error, ZeroDivisionError)
    assert decisions.sampled == {"all": Chance(1.0)}
    assert decisions.undecided() == {"all"}
    assert Decider(rules).decide(run(), "nobody is asked with this")[1] == []


NONE_AT_ALL: list[tuple[Any, str]] = [
    (None, "must return a Chance, not a NoneType"),
    (0.5, "must return a Chance, not a float"),
    (Chance(0.5, why=3), "must return a Chance"),  # type: ignore[arg-type]  # that is the point
    (Chance(float("nan")), "must lie within 0..1, not nan"),
    (Chance(float("inf")), "must lie within 0..1, not inf"),
    (Chance(-1), "must lie within 0..1, not -1"),
    (Chance("0.5"), "not supported"),  # type: ignore[arg-type]  # that is the point
]


@pytest.mark.parametrize(("chance", "why"), NONE_AT_ALL)
def test_a_sampler_that_gives_no_chance_does_not_sample(chance: Any, why: str) -> None:
    class Odd(Sampler):
        def chance(self, run: Run, earlier: Any = None) -> Chance:
            return chance  # type: ignore[no-any-return]

        def __str__(self) -> str:
            return "odd()"

    _, decisions = Decider([rule("a", Odd()), rule("b")]).decide(run(), "run")
    assert told(decisions) == {"a": ("not_sampled", "predicate_failed"), "b": ("sampled", "")}
    assert why in str(decisions[0].error)


@given(st.floats(0, 1), st.integers(1, 2**128 - 1), st.sampled_from(["", "ot=th:8"]))
def test_a_share_is_sampled_by_the_traces_own_randomness(rate: float, trace_id: int, state: str) -> None:
    judged = run(trace_id, trace_state=state)
    _, (decision,) = Decider([rule("a", rate)]).decide(judged, "run")
    assert (decision.status == "sampled") == sampling.is_sampled(rate, trace_id, state)


@given(st.integers(1, 2**128 - 1), st.floats(0, 1))
def test_what_is_ruled_out_has_the_highest_chance_on_record(trace_id: int, rate: float) -> None:
    decider = Decider([rule("a", rate), rule("b", sampling.ratio(rate) & sampling.errors())])
    assert [(d.rule.name, d.status, d.reason, d.chance) for d in decider.rule_out("run")] == [
        (name, "not_sampled", "sampled_out", Chance(rate)) for name in ("a", "b")
    ]
    assert decider.rule_out("conversation") == []


def test_rules_with_an_early_decision_are_not_asked_again() -> None:
    """A check decided before the run ended; all other rules are asked, into the same decisions."""
    early = RunDecisions(run(), sampled={"checked": Chance(1.0)})
    decisions, decided = Decider([rule("checked", 0.0), rule("other")]).decide(run(), "run", early)
    assert decisions is early
    assert told(decided) == {"other": ("sampled", "")}
    assert decisions.sampled == {"checked": Chance(1.0), "other": Chance(1.0)}


# --- cascades ---


@pytest.mark.parametrize(
    ("outcome", "status", "reason"),
    [
        (LOW, "sampled", ""),
        (HIGH, "not_sampled", "cascade_not_met"),
        (NotScored(reason="x"), "not_sampled", "cascade_not_scored"),
        (ScorerFailure(error_type="x", message=""), "not_sampled", "cascade_not_scored"),
        (Dropped(reason="queue_full"), "not_sampled", "cascade_not_scored"),
    ],
)
def test_a_cascade_waits_for_the_outcome_that_it_follows(outcome: Outcome, status: str, reason: str) -> None:
    decider = Decider([rule("judge", sampling.below("cheap", 0.5)), rule("cheap")])
    decisions, decided = decider.decide(run(), "run")
    assert told(decided) == {"cheap": ("sampled", ""), "judge": ("waiting", "")}, "the followed one first"
    assert decisions.undecided() == {"cheap", "judge"}
    assert told(decider.follow(decisions, "cheap", outcome)) == {"judge": (status, reason)}
    assert not decisions.waiting


def test_a_cascade_on_what_is_not_sampled_decides_at_once() -> None:
    decider = Decider([rule("cheap", 0.0), rule("judge", sampling.above("cheap", 0.5))])
    _, decided = decider.decide(run(), "run")
    assert told(decided)["judge"] == ("not_sampled", "cascade_not_sampled")


# --- properties ---

NAMES = "abcdef"
SHARES = st.sampled_from([0.0, 0.3, 0.7, 1.0])
OUTCOMES: dict[str, Outcome] = {
    "low": LOW,
    "high": HIGH,
    "not scored": NotScored(reason="x"),
    "failed": ScorerFailure(error_type="x", message=""),
}


@st.composite
def rule_sets(draw: Any) -> list[Rule]:
    """Rules with conditions and shares, each of which may follow up to two of those before it; shuffled."""
    rules: list[Rule] = []
    for number, name in enumerate(NAMES[: draw(st.integers(1, len(NAMES)))]):
        sample: Sampler = sampling.ratio(draw(SHARES))
        for other in draw(st.lists(st.sampled_from(NAMES[:number] or "-"), max_size=2, unique=True)):
            if number:
                cascade = draw(st.sampled_from([sampling.below, sampling.above]))(other, 0.5)
                sample = cascade if draw(st.booleans()) else sample & cascade
        applies = draw(st.sampled_from([None, None, lambda run: False]))
        rules.append(rule(name, sample, when=applies))
    shuffled: list[Rule] = draw(st.permutations(rules))
    return shuffled


def play(rules: Sequence[Rule], judged: Run, outcomes: dict[str, str], rng: random.Random) -> dict[str, Any]:
    """Decide, let what is sampled end in a random order, and follow; returns each rule's last decision."""
    decider = Decider(rules)
    decisions, decided = decider.decide(judged, "run")
    last: dict[str, Any] = {}
    pending: list[str] = []
    rounds = 0
    while True:
        rounds += 1
        assert rounds <= len(rules) + 1, "cascades end"
        for each in decided:
            assert each.rule.name not in last, "each rule decides once"
            if each.status != "waiting":
                last[each.rule.name] = (each.status, each.reason, each.chance)
            if each.status == "sampled":
                pending.append(each.rule.scorer_id)
        if not pending:
            break
        ended = pending.pop(rng.randrange(len(pending)))
        decided = decider.follow(decisions, ended, OUTCOMES[outcomes[ended]])
    assert not decisions.waiting
    assert decisions.undecided() == set()
    return last


@settings(max_examples=150, deadline=None)
@given(
    rules=rule_sets(),
    trace_id=st.integers(1, 2**128 - 1),
    outcomes=st.fixed_dictionaries({name: st.sampled_from(sorted(OUTCOMES)) for name in NAMES}),
    rng=st.randoms(use_true_random=False),
)
def test_cascades_terminate_and_the_order_of_outcomes_does_not_matter(
    rules: list[Rule], trace_id: int, outcomes: dict[str, str], rng: random.Random
) -> None:
    judged = run(trace_id)
    first = play(rules, judged, outcomes, rng)
    assert first.keys() == {rule.name for rule in rules}
    assert play(rules, judged, outcomes, rng) == first
    assert play(rules[::-1], judged, outcomes, rng) == first


# --- what goes on record ---


@given(st.sampled_from([0.125, 0.5, 1.0]), st.sampled_from(["ot=th:0", "ot=th:8", "ot=th:c"]))
def test_a_head_sampler_s_share_goes_on_record_with_ours(rate: float, state: str) -> None:
    judged = run(2**56 - 1, trace_state=state)
    decider = Decider([rule("a", rate)])
    _, (decision,) = decider.decide(judged, "run")
    assert decision.status == "sampled"
    sampled = decider.sampled(decision, judged)
    head = {"ot=th:0": 1.0, "ot=th:8": 0.5, "ot=th:c": 0.25}[state]
    assert (sampled.probability, sampled.rule) == (rate * head, f"ratio({rate:g})")


@pytest.mark.parametrize(("state", "recorded"), [("", 0.5), ("a=b", 0.5), ("ot=th:8", None)])
def test_a_conversation_with_a_trace_from_a_head_sampler_has_no_known_chance(
    state: str, recorded: float | None
) -> None:
    """The sampler may have rejected other turns."""
    judged = run(turns=(run(), run(trace_state=state)))
    decider = Decider([rule("a", 0.5)])
    assert (
        decider.sampled(Decision(rule("a", 0.5), "sampled", chance=Chance(0.5)), judged).probability
        == recorded
    )


def test_a_rule_that_follows_a_predicate_has_what_is_known() -> None:
    """The cascade's record is that of the part without the predicate."""
    rules = [
        rule("cheap", sampling.ratio(0.5) | sampling.when(lambda run: True)),
        rule("dear", sampling.below("cheap", 0.5)),
    ]
    rng, recorded = random.Random(4), set()
    for _ in range(50):
        judged, decider = run(rng.getrandbits(128)), Decider(rules)
        decisions, (first, _) = decider.decide(judged, "run")
        (second,) = decider.follow(decisions, "cheap", LOW)
        probabilities = [decider.sampled(each, judged).probability for each in (first, second)]
        assert probabilities[0] == probabilities[1]
        recorded.add(probabilities[0])
    assert recorded == {None, 0.5}
