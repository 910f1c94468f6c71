"""Tallies: means of all runs from those sampled, with intervals and bounds that say what is not known."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals import Direction, Rule, sampling, scorer
from otel_evals._internal.offline.results import as_text
from otel_evals._internal.offline.tally import Kin, ScorerTally, kin_of, tally
from otel_evals.model import (
    Dropped,
    Evaluation,
    NotScored,
    OperationKind,
    Outcome,
    Run,
    Sampled,
    Score,
    ScorerFailure,
)

FAILED = ScorerFailure(error_type="timeout", message="")


def rule(scale: float | None = 1.0) -> Rule:
    return Rule(scorer(id="s", version="1", scale=scale)(lambda run: 0.0))


def evaluation(number: int, outcome: Outcome | float, probability: float | None = 1.0) -> Evaluation:
    return Evaluation(
        evaluation_id=str(number),
        scorer_id="s",
        scorer_version="1",
        direction=Direction.HIGHER,
        trace_id=f"{number:032x}",
        span_id="1" * 16,
        outcome=Score(value=outcome) if isinstance(outcome, float) else outcome,
        sampled=Sampled(probability, "sampler"),
        rule="s",
    )


def tallied(
    outcomes: Sequence[Outcome | float],
    probabilities: Sequence[float | None] | None = None,
    *,
    scale: float | None = 1.0,
    kin: dict[str, Kin] | None = None,
) -> ScorerTally:
    likely = probabilities or [1.0] * len(outcomes)
    found = [evaluation(i, *each) for i, each in enumerate(zip(outcomes, likely, strict=True), 1)]
    (result,) = tally([rule(scale)], found, kin)
    return result


SCORED = st.lists(st.tuples(st.floats(0, 1), st.floats(0.01, 1) | st.none()), min_size=1, max_size=30)


@settings(deadline=None)
@given(SCORED, st.sampled_from([1.0, 5.0, None]))
def test_the_mean_is_weighted_and_lies_in_its_interval(
    runs: list[tuple[float, float | None]], scale: float | None
) -> None:
    """On any scale; scores of unknown probability are counted and left out."""
    unit = scale or 1.0
    found = tallied([x * unit for x, _ in runs], [p for _, p in runs], scale=scale)
    known = [(x, p) for x, p in runs if p is not None]
    assert (found.scored, found.unknown) == (len(runs), len(runs) - len(known))
    if not known:
        assert (found.mean, found.interval, found.too_few) == (None, None, True)
        return
    weight = sum(1 / p for _, p in known)
    assert found.mean == pytest.approx(unit * sum(x / p for x, p in known) / weight)
    assert found.n_effective == pytest.approx(weight**2 / sum(p**-2 for _, p in known))
    if scale is None:
        assert found.interval is None
    else:
        assert found.interval
        low, high = found.interval
        assert -1e-9 <= low - 1e-9 <= (found.mean or 0.0) <= high + 1e-9 <= scale + 1e-9


@pytest.mark.parametrize("value", [0.7, 0.1, 1 / 3, 2.1])
def test_equal_scores_have_exactly_their_own_mean(value: float) -> None:
    """A threshold at that very score is met, however many there are."""
    for count in (3, 10, 77):
        assert tallied([value] * count, [0.05] * count, scale=3.0).mean == value


def test_too_few_are_called_that_and_have_no_interval_in_the_table() -> None:
    """Ten runs that weigh the same are enough; thirty of which one weighs most are not."""
    assert not tallied([1.0] * 10).too_few
    nine, uneven = tallied([1.0] * 9), tallied([1.0] * 30, [0.001] + [1.0] * 29)
    for found in (nine, uneven):
        assert found.too_few
        assert as_text([found]).splitlines()[1].endswith("1.000  too few")
    assert "n eff" in as_text([uneven])
    assert "n eff" not in as_text([nine])


def test_what_nobody_can_weigh_has_no_mean() -> None:
    found = tallied([1.0, 0.0], [None, None])
    assert as_text([found]).splitlines()[1].endswith("unknown probability")


def test_runs_of_one_user_count_for_less_than_runs_of_many() -> None:
    """The users of half of all runs have nothing but bad ones: the interval of the mean is wider for it."""
    scores: list[Outcome | float] = [float(i % 40 < 20) for i in range(400)]
    alone = tallied(scores)
    users: dict[str, Kin] = {f"{i + 1:032x}": f"u{i % 40}" for i in range(400)}
    conversations: dict[str, Kin] = {f"{i + 1:032x}": f"c{i % 40}" for i in range(400)}
    for kin in (users, conversations):
        found = tallied(scores, kin=kin)
        assert found.mean == alone.mean
        assert found.interval
        assert alone.interval
        assert found.interval[1] - found.interval[0] > 2 * (alone.interval[1] - alone.interval[0])


def test_runs_that_share_nothing_are_as_good_as_without_ids() -> None:
    scores: list[Outcome | float] = [float(i % 3 > 0) for i in range(60)]
    apart: dict[str, Kin] = {f"{i + 1:032x}": f"u{i}" for i in range(60)}
    assert tallied(scores, kin=apart) == tallied(scores)


def test_one_conversation_says_nothing_about_others() -> None:
    kin: dict[str, Kin] = {f"{i + 1:032x}": "c" for i in range(60)}
    assert tallied([1.0] * 60, kin=kin).interval == pytest.approx((0.025, 1.0))


@pytest.mark.parametrize(
    ("outcome", "is_lost"),
    [
        (FAILED, True),
        (Dropped(reason="queue_full"), True),
        (NotScored(reason="input_captured_off"), True),
        (NotScored(reason="tool_results_truncated"), True),
        (NotScored(reason="too_many_elements"), True),
        (NotScored(reason="no_claims"), False),
        (NotScored(reason="ground_truth_not_recorded"), False),
        (NotScored(reason="a reason of somebody else's"), False),
    ],
)
def test_bounds_tell_what_missing_scores_could_change(outcome: Outcome, is_lost: bool) -> None:
    """Not what the scorer does not apply to."""
    found = tallied([1.0] * 90 + [outcome] * 10, scale=5.0)
    assert found.missing_share == pytest.approx(0.1 if is_lost else 0.0)
    if not is_lost:
        assert found.bounds is None
        assert "with missing" not in as_text([found])
        return
    assert found.bounds
    assert found.interval
    assert found.bounds[0] < 0.9
    assert found.bounds[1] > found.interval[1]
    assert as_text([found]).splitlines()[0].endswith("with missing")


def test_without_a_scale_there_are_no_bounds_and_an_interval_only_of_many() -> None:
    rng = random.Random(1)
    values: list[Outcome | float] = [1e6 + rng.gauss(0, 1) for _ in range(400)]
    found = tallied([*values, FAILED], scale=None)
    assert found.bounds is None
    assert found.interval is not None
    assert found.interval[1] - found.interval[0] == pytest.approx(2 * 1.96 / 20, rel=0.2)
    assert tallied(values[:150], scale=None).interval is None


def test_a_user_or_a_conversation_tells_whose_run_it_is() -> None:
    def run(**fields: Any) -> Run:
        return Run(trace_id="1" * 32, root_span_id="2" * 16, root_kind=OperationKind.AGENT, **fields)

    assert kin_of(run()) == "1" * 32
    assert kin_of(run(conversation_id="c")) == "c"
    assert kin_of(run(user_id="u", conversation_id="c")) == "u"


def test_the_rules_claim_of_the_front_page_holds_in_the_table() -> None:
    """`ratio(0.05) | errors()`: a tenth of the runs fail and score 0.2, the rest 0.978; the mean of all is
    0.900."""
    rng, sampler = random.Random(5), sampling.ratio(0.05) | sampling.errors()
    scores: list[Outcome | float] = []
    probabilities: list[float | None] = []
    for number in range(20_000):
        fails = number % 10 == 0
        trace_id = rng.getrandbits(128)
        judged = Run(
            trace_id=f"{trace_id:032x}",
            root_span_id="2" * 16,
            root_kind=OperationKind.AGENT,
            error="x" if fails else None,
        )
        probability = sampler.chance(judged).probability
        if sampling.is_sampled(probability, trace_id):
            scores.append(float(rng.random() < (0.2 if fails else 0.97778)))
            probabilities.append(probability)
    found = tallied(scores, probabilities)
    assert sum(float(each) for each in scores if isinstance(each, float)) / len(scores) < 0.5
    assert found.interval
    assert found.interval[0] < 0.9 < found.interval[1]
    assert found.interval[1] - found.interval[0] < 0.06
