"""Sampling: rates hold, lower rates are subsets, decisions repeat, words and objects agree."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals import sampling
from otel_evals.errors import ConfigError
from otel_evals.model import OperationKind, Run, ToolCall
from otel_evals.sampling import Chance, Sampler

TRACE_IDS = st.integers(min_value=1, max_value=(1 << 128) - 1)
RATES = st.floats(min_value=0, max_value=1)


def run(**fields: object) -> Run:
    defaults = {"trace_id": "0" * 31 + "1", "root_span_id": "0" * 15 + "1", "root_kind": OperationKind.AGENT}
    return Run(**{**defaults, **fields})  # type: ignore[arg-type]  # fields are free in tests


@pytest.mark.parametrize("rate", [0.5, 0.1, 0.01])
@pytest.mark.parametrize("ids", ["random", "sequential", "head_sampled"])
def test_ids_meet_the_rate(rate: float, ids: str) -> None:
    """Within four standard deviations, whatever made the ids, even a head sampler that kept the lowest."""
    rng = random.Random(7)
    make = {
        "random": lambda _: rng.getrandbits(128),
        "sequential": lambda i: i + 1,
        "head_sampled": lambda _: rng.getrandbits(64) << 64 | rng.getrandbits(64 - 10),
    }[ids]
    count = 40_000
    floor = sampling.threshold(rate)
    picked = sum(sampling.randomness(make(i)) >= floor for i in range(count))
    assert abs(picked - rate * count) < 4 * (count * rate * (1 - rate)) ** 0.5


@given(TRACE_IDS, RATES, RATES)
def test_lower_rates_pick_subsets(trace_id: int, a: float, b: float) -> None:
    """What a rate samples, every higher rate samples too."""
    low, high = sorted((a, b))
    assert not sampling.is_sampled(low, trace_id) or sampling.is_sampled(high, trace_id)


@given(TRACE_IDS)
def test_always_and_never_are_exact(trace_id: int) -> None:
    """Rate one samples every trace, rate zero none."""
    assert sampling.is_sampled(1.0, trace_id)
    assert not sampling.is_sampled(0.0, trace_id)


def test_a_failed_tool_is_an_error() -> None:
    """`errors()` samples runs that recovered from a failing tool too."""
    assert sampling.errors().chance(run(tool_calls=(ToolCall(name="t", status="error"),))).probability == 1


def test_what_a_predicate_picks_has_no_known_probability_but_its_part() -> None:
    """It decides; what is known is what the ratio beside it gives, the same for all runs."""
    sampler = sampling.ratio(0.2) | sampling.when(lambda r: r.agent_name == "vip")
    assert sampling.recorded_probability(sampler.chance(run(agent_name="vip"))) is None
    assert sampler.chance(run(agent_name="vip")) == sampling.Chance(1.0, known=False, part=0.2)
    assert sampling.recorded_probability(sampler.chance(run())) == pytest.approx(0.2)
    assert (sampler & sampling.ratio(0.1)).chance(run(agent_name="vip")) == sampling.Chance(0.1, part=0.1)
    alone = sampling.when(lambda r: True)
    for sampler in (alone, alone & sampling.ratio(0.5)):
        assert sampler.chance(run()).estimable is None


class Asked:
    """A predicate whose answer the test sets."""

    answer = False

    def __call__(self, judged: Run) -> bool:
        return self.answer


ASKED = Asked()
SAMPLERS = st.recursive(
    st.one_of(
        RATES.map(sampling.ratio),
        st.sampled_from([sampling.errors(), sampling.slower_than(1), sampling.when(ASKED)]),
    ),
    lambda inner: st.tuples(inner, inner, st.booleans()).map(lambda t: t[0] | t[1] if t[2] else t[0] & t[1]),
    max_leaves=8,
)


@settings(deadline=None)
@given(SAMPLERS, st.booleans(), st.booleans(), st.integers(1, (1 << 128) - 1))
def test_what_goes_on_record_does_not_depend_on_a_predicate(
    sampler: Sampler, fails: bool, slow: bool, trace_id: int
) -> None:
    """Whatever it answers, runs are recorded with the probability without it, and all were sampled."""
    judged = run(error="x" if fails else None, end_time=2_000_000_000 if slow else 1)
    ASKED.answer = False
    without = sampler.chance(judged).probability
    for ASKED.answer in (False, True):
        chance = sampler.chance(judged)
        estimable = chance.estimable or 0.0
        assert estimable == without <= chance.probability
        assert sampling.is_sampled(chance.probability, trace_id) or not sampling.is_sampled(
            estimable, trace_id
        )


@settings(deadline=None)
@given(SAMPLERS, st.booleans(), st.booleans(), st.booleans())
def test_no_weight_exceeds_one_over_the_floor(
    sampler: Sampler, fails: bool, slow: bool, answer: bool
) -> None:
    """The floor is the least probability on record, zero aside; where runs may get zero, it is told."""
    ASKED.answer = answer
    chance = sampler.chance(run(error="x" if fails else None, end_time=2_000_000_000 if slow else 1))
    assert not chance.estimable or chance.estimable >= sampler.floor > 0
    assert chance.probability > 0 or sampler.may_exclude


class Fixed(Sampler):
    """A user's sampler, whose properties may be numbers and texts of other kinds."""

    def __init__(self, chance: Chance) -> None:
        self.given = chance

    def chance(self, run: Run, earlier: object = None) -> Chance:
        return self.given

    def __str__(self) -> str:
        return "fixed()"


CHANCES = st.sampled_from([0.2, 0.7, 1.0]).map(Chance) | st.builds(
    Chance, st.just(0.0), why=st.sampled_from(["", "x", "y"])
)


@given(CHANCES, CHANCES)
def test_the_reason_is_that_of_the_side_that_decides(a: Chance, b: Chance) -> None:
    """Of `|` whichever way it is written; of `&` the first one that rules the run out."""
    one, other = Fixed(a), Fixed(b)
    either, both = (one | other).chance(run()), (one & other).chance(run())
    assert either == (other | one).chance(run())
    assert either.why == max(each.why for each in (a, b) if each.probability == either.probability)
    assert both.why == (b if a.probability > 0 else a).why
    assert (either.probability, both.probability) == (
        max(a.probability, b.probability),
        min(a.probability, b.probability),
    )


def test_samplers_are_not_combined_by_or() -> None:
    with pytest.raises(ConfigError) as told:
        sampling.ratio(0.1) or sampling.errors()
    assert str(told.value) == (
        "sample: ratio(0.1) is used with `or`, `and`, `not` or `if`:"
        " samplers combine with | (either) and & (both)"
    )


@pytest.mark.parametrize(
    ("words", "floor"),
    [
        ("ratio(0.05)", 0.05),
        ("ratio(0.05) | errors()", 0.05),
        ("ratio(0.05) | ratio(0.2)", 0.2),
        ("ratio(0.05) & (errors() | slower_than(5))", 0.05),
        ("errors() | slower_than(5)", 1.0),
        ("always()", 1.0),
        ("never() | errors()", 1.0),
        ("per_minute(10)", 0.0),
        ("ratio(0.01) | stratified('agent_name', 5)", 0.01),
        ("ratio(0.01) & stratified('agent_name', 5)", 0.0),
        ("below('cheap', 0.5) & ratio(0.1)", 0.0),
    ],
)
def test_the_floor_is_known_beforehand(words: str, floor: float) -> None:
    """One over it is the largest weight; a rate limit, and a rule that is followed, have none."""
    assert sampling.parse(words).floor == floor


@given(RATES, RATES)
def test_ceilings_bound_every_chance(a: float, b: float) -> None:
    """No run has a higher chance than the ceiling known before it."""
    for sampler in (sampling.ratio(a) | sampling.ratio(b), sampling.ratio(a) & sampling.errors()):
        assert sampler.chance(run(error="x")).probability <= sampler.ceiling


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("ratio(2)", r"^sample: ratio\(2\): the rate must be a number between 0 and 1$"),
        ("ratio('x')", r"^sample: ratio\('x'\): the rate must be a number between 0 and 1$"),
        ("ratio()", r"^sample.probability: is missing: it has no default$"),
        ("slower_than(-1)", r"^sample: slower_than\(-1\): the duration in seconds must be a positive number"),
        ("sometimes()", r"^sample: there is no sampler 'sometimes'; known: above, always, attr"),
        (
            "ratio(",
            r"^sample: 'ratio\(' is not a sampler; write for example 'ratio\(0.05\) \| err",
        ),
        ("__import__('os')", "no sampler '__import__'"),
        ("", "not a sampler"),
    ],
)
def test_wrong_words_are_named(words: str, says: str) -> None:
    """A wrong sampler is a ConfigError that says what would be right."""
    with pytest.raises(ConfigError, match=says):
        sampling.parse(words)


@pytest.mark.parametrize("rate", [-0.1, 1.1, float("nan"), True, "0.1", None])
def test_rates_outside_the_range_are_refused(rate: object) -> None:
    """Only numbers between 0 and 1 are rates."""
    with pytest.raises(ConfigError, match="between 0 and 1"):
        sampling.ratio(rate)  # type: ignore[arg-type]  # that is the point
