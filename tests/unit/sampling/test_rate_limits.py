"""Rate limits, strata and cascades: they keep to their numbers, and weighted estimates stay right."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from statistics import fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals import sampling
from otel_evals._internal.sampling.algebra import SamplerFacts, facts_of_sampler
from otel_evals._internal.sampling.conditions import cascade_order
from otel_evals.errors import ConfigError
from otel_evals.model import NotScored, Operation, OperationKind, Outcome, Run, Score, SpanRecord
from otel_evals.sampling import Chance, Earlier, Sampler
from otel_evals.scorers import answered


class Clock:
    """Seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def run(trace_id: int = 1, **fields: object) -> Run:
    defaults = {"trace_id": f"{trace_id:032x}", "root_span_id": "0" * 15 + "1"}
    return Run(**{"root_kind": OperationKind.AGENT, **defaults, **fields})  # type: ignore[arg-type]  # free


def drive(
    sampler: Sampler, clock: Clock, rng: random.Random, arrivals: Iterator[tuple[float, str]]
) -> Iterator[tuple[float, str, float, bool]]:
    """Time, agent, recorded probability and pick of each run that arrives."""
    start = clock.now
    for seconds, agent in arrivals:
        clock.now = start + seconds
        trace_id = rng.getrandbits(128)
        probability = sampler.chance(run(trace_id, agent_name=agent)).probability
        yield seconds, agent, probability, sampling.is_sampled(probability, trace_id)


def steady(rate: float, seconds: float, agent: str = "a") -> Iterator[tuple[float, str]]:
    return ((i / rate, agent) for i in range(int(rate * seconds)))


def bursty(seconds: int) -> Iterator[tuple[float, str]]:
    """Silence, a trickle, and bursts of hundreds within a second."""
    for second in range(seconds):
        count = 400 if second % 97 == 40 else 20 if second % 7 == 0 else second % 2
        yield from ((second + i / 500, "a") for i in range(count))


def most_in_a_window(times: list[float], window: float) -> int:
    first = most = 0
    for last, time in enumerate(times):
        while times[first] <= time - window:
            first += 1
        most = max(most, last - first + 1)
    return most


@pytest.mark.parametrize("limit", [1, 10, 100])
@pytest.mark.parametrize("rate", [0.5 / 60, 2.0, 150.0])
def test_no_minute_exceeds_the_stated_bound(limit: int, rate: float) -> None:
    """Out of silence too: at most log2 of the runs above the limit, and a few for chance."""
    clock = Clock()
    sampler = sampling.per_minute(limit, clock=clock)
    runs = max(1, int(rate * 90))
    times = [t for t, _, _, picked in drive(sampler, clock, random.Random(2), steady(rate, 90)) if picked]
    assert most_in_a_window(times, 60) <= limit + math.log2(runs + 1) + 4


def test_a_burst_that_wins_every_draw_is_stopped_by_the_last_of_56_bits() -> None:
    """The bound of 37 holds whatever the trace ids are: here each has the highest randomness there is."""
    clock = Clock()
    sampler = sampling.per_minute(5, clock=clock)
    luckiest = [run(1, trace_state="ot=rv:ffffffffffffff") for _ in range(5000)]
    picked = [sampling.is_sampled(sampler.chance(r).probability, 1, r.trace_state) for r in luckiest]
    assert 5 < sum(picked) <= 5 + 37


def horvitz_thompson(make: Callable[[Clock], Sampler], seed: int, seconds: int) -> tuple[float, float]:
    """Estimated total and its estimated count, each over the truth, for runs whose value drifts in time."""
    clock, rng = Clock(), random.Random(seed)
    total = weight = truth = count = 0.0
    for time, _, probability, picked in drive(make(clock), clock, rng, bursty(seconds)):
        value = 0.2 + 0.6 * (time / seconds) + 0.2 * rng.random()
        truth, count = truth + value, count + 1
        if picked:
            total, weight = total + value / probability, weight + 1 / probability
    return total / truth, weight / count


@pytest.mark.parametrize(("days", "seconds"), [(12, 150), pytest.param(80, 300, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "make",
    [
        lambda clock: sampling.per_minute(30, clock=clock),
        lambda clock: sampling.ratio(0.1) & sampling.per_minute(30, clock=clock),
        lambda clock: sampling.ratio(0.02) | sampling.stratified("agent_name", 20, clock=clock),
    ],
    ids=["per_minute", "ratio & per_minute", "ratio | stratified"],
)
def test_weighted_totals_are_unbiased_under_bursts(
    make: Callable[[Clock], Sampler], days: int, seconds: int
) -> None:
    """The mean over simulated stretches of bursty traffic is the truth, within four standard errors."""
    estimates = [horvitz_thompson(make, seed, seconds) for seed in range(days)]
    for ratios in zip(*estimates, strict=True):
        error = stdev(ratios) / len(ratios) ** 0.5
        assert error < 0.5 / days**0.5
        assert abs(fmean(ratios) - 1.0) < 4 * error


def test_the_limit_counts_only_what_the_other_condition_lets_pass() -> None:
    """`errors() & per_minute(n)` is n errors a minute, whichever way it is written."""
    for swap in (False, True):
        clock = Clock()
        limit, errors = sampling.per_minute(10, clock=clock), sampling.errors()
        sampler = limit & errors if swap else errors & limit
        for i in range(1000):
            assert sampler.chance(run(i + 1)).probability == 0.0
        assert sampler.chance(run(5000, error="boom")).probability == 1.0


SAMPLERS = st.recursive(
    st.one_of(
        st.floats(0, 1).map(sampling.ratio),
        st.sampled_from(
            [sampling.errors(), sampling.used_tool("a"), sampling.slower_than(1), sampling.always()]
        ),
    ),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] | p[1]), st.tuples(inner, inner).map(lambda p: p[0] & p[1])
    ),
    max_leaves=8,
)


@given(SAMPLERS, SAMPLERS, st.integers(1, (1 << 128) - 1), st.booleans(), st.booleans())
def test_the_algebra_is_that_of_sets_exactly(
    a: Sampler, b: Sampler, trace_id: int, fails: bool, slow: bool
) -> None:
    """`|` samples the union and `&` the intersection, run by run, also after parsing."""
    judged = run(trace_id, error="x" if fails else None, end_time=2_000_000_000 if slow else 1)
    picked = [sampling.is_sampled(s.chance(judged).probability, trace_id) for s in (a, b, a | b, a & b)]
    assert picked[2] == (picked[0] or picked[1])
    assert picked[3] == (picked[0] and picked[1])
    again = sampling.parse(str(a | b))
    assert again.chance(judged).probability == pytest.approx((a | b).chance(judged).probability, abs=1e-9)
    assert sampling.parse(str(a & b)).ceiling == pytest.approx((a & b).ceiling, abs=1e-9)


def test_strata_may_be_attributes_or_functions_and_hours() -> None:
    """The same field by its name, as an attribute and by a function; an hour forgets more slowly."""
    span = SpanRecord(trace_id="1" * 32, span_id="0" * 15 + "1", attributes={"tenant": "acme"})
    judged = run(operations=(Operation(span=span, kind=OperationKind.AGENT, convention="x"),), agent_name="a")
    for by in ("tenant", "agent_name", lambda r: r.agent_name):
        clock = Clock()
        sampler = sampling.stratified(by, 2, "hour", clock=clock)
        chances = [sampler.chance(judged).probability for _ in range(3)]
        assert chances[:2] == [1.0, 1.0]
        assert chances[2] < 1.0
        clock.now += 100
        assert sampler.chance(judged).probability < 1.0
        clock.now += 4000
        assert sampler.chance(judged).probability == 1.0


def test_a_million_strata_take_no_more_room_than_four_thousand() -> None:
    sampler = sampling.stratified("user_id", 1, clock=Clock())
    for user in range(10_000):
        assert sampler.chance(run(user + 1, user_id=str(user))).probability == 1.0
    assert len(vars(sampler)["_controls"]) == 4096


@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.3, 4.0, 5.0, 11.0, 59.0, 70.0]), st.integers(1, 30)), max_size=12
    ),
    st.sampled_from([1, 2.5, 20, 40]),
    st.randoms(use_true_random=False),
)
def test_the_probability_is_that_of_the_formula(
    bursts: list[tuple[float, int]], limit: float, rng: random.Random
) -> None:
    """From the runs of the last twelve slices, and of the last two if they surely foretell more."""
    clock, seen = Clock(), list[tuple[int, bool]]()
    sampler = sampling.per_minute(limit, clock=clock)
    for pause, runs in bursts:
        clock.now += pause
        for _ in range(runs):
            number = int(clock.now / 5)
            window = [(slice_, sampled) for slice_, sampled in seen if slice_ >= number - 12]
            expected = 1.0
            if len(window) + 1 > limit:
                recent = sum(slice_ >= number - 1 for slice_, _ in window)
                foretold = (recent - 3 * math.sqrt(recent)) * 60 / (clock.now - (number - 1) * 5)
                expected = limit / max(len(window) + 1, foretold)
                if (excess := sum(sampled for _, sampled in window) - limit + 1) > 0:
                    expected *= 2 ** (-excess / min(4, math.sqrt(limit)) - (excess / 10) ** 3)
            trace_id = rng.getrandbits(128)
            probability = sampler.chance(run(trace_id)).probability
            assert probability == pytest.approx(expected)
            seen.append((number, sampling.is_sampled(probability, trace_id)))


# --- cascades ---


def earlier(outcome: Outcome, probability: float = 0.2) -> dict[str, Earlier]:
    return {"cheap": Earlier(Chance(probability), outcome)}


def test_a_cascade_has_the_chance_of_the_rule_it_follows() -> None:
    """Below the bound: the first rule's probability. Beyond it, without a score, unsampled: zero, and why."""
    below, above = sampling.below("cheap", 0.5), sampling.above("cheap", 0.5)
    assert below.chance(run(), earlier(Score(value=0.4))) == Chance(0.2)
    assert above.chance(run(), earlier(Score(value=0.6))) == Chance(0.2)
    for sampler in (below, above):
        assert sampler.chance(run(), earlier(Score(value=0.5))).why == "cascade_not_met"
        assert sampler.chance(run(), earlier(NotScored(reason="x"))).why == "cascade_not_scored"
        assert sampler.chance(run()).why == "cascade_not_sampled"
    both = below & sampling.ratio(0.05)
    assert both.chance(run(), earlier(Score(value=0.1))).probability == 0.05
    assert (below | sampling.ratio(0.01)).chance(run()).probability == 0.01
    assert (below & sampling.errors()).follows == {"cheap"}
    assert str(sampling.below(answered(), 0.5)) == "below('answered', 0.5)"


def test_a_run_that_is_sampled_anyway_takes_nothing_of_a_limit() -> None:
    limit = sampling.per_minute(1, clock=lambda: 0.0)
    both = sampling.always() | limit
    assert [both.chance(run(number)).probability for number in range(5)] == [1.0] * 5
    assert limit.chance(run()).probability == 1.0


def test_unknown_and_circular_cascades_name_the_rule() -> None:
    """Refused when built, with the rule's place and the fix."""

    def below(scorer: str, score: float) -> SamplerFacts:
        return facts_of_sampler(sampling.below(scorer, score))

    always = facts_of_sampler(sampling.always())
    with pytest.raises(ConfigError, match=r"rules\[1\]\.sample.*'nope'.*known are 'a'$"):
        cascade_order([("a", "run", always), ("b", "run", below("nope", 1)), ("c", "agent", always)])
    with pytest.raises(ConfigError, match=r"rules\[0\]\.sample.*scope 'run' scores; add a rule for it$"):
        cascade_order([("a", "run", below("b", 1)), ("b", "agent", always)])
    with pytest.raises(ConfigError, match=r"rules\[1\]\.sample: 'b' and 'c' depend on each other"):
        cascade_order([("a", "run", always), ("b", "run", below("c", 1)), ("c", "run", below("b", 1))])
    with pytest.raises(ConfigError, match="depend on each other"):
        cascade_order([("a", "run", below("a", 1))])
    chain = [("c", "run", below("b", 1)), ("b", "run", below("a", 1)), ("a", "run", always)]
    assert cascade_order(chain) == [2, 1, 0]


# --- words ---


@pytest.mark.parametrize(
    "words",
    [
        "per_minute(10)",
        "errors() & per_minute(2.5)",
        "ratio(0.01) | stratified('agent_name', 5)",
        "stratified('tenant.id', 20, 'hour')",
        "below('answered', 0.5) & ratio(0.1)",
        "above('toxicity', -1)",
        "used_tool('delete_*') | attribute('feedback', 'down') | attribute('vip')",
        "attribute('user.vip', True) & (attribute('retries', 3) | slower_than(0.123456789))",
        "ratio(0.1234567)",
    ],
)
def test_every_sampler_that_can_be_written_says_the_words_that_make_it(words: str) -> None:
    assert str(sampling.parse(words)) == words


def test_strata_and_conditions_by_a_function_say_its_name_or_type() -> None:
    assert str(sampling.stratified(steady, 5)) == "stratified(steady, 5)"  # type: ignore[arg-type]
    assert str(sampling.stratified(partial(getattr, "x"), 5)) == "stratified(partial, 5)"
    assert (str(sampling.when(bool)), str(sampling.when(partial(bool)))) == ("when(bool)", "when(partial)")


def test_arguments_may_be_named() -> None:
    sampler = sampling.parse("stratified(by='agent_name', floor=5, per='hour')")
    assert str(sampler) == "stratified('agent_name', 5, 'hour')"
    assert str(sampling.parse("below(scorer='a', score=1)")) == "below('a', 1)"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("per_minute(0.5)", "at least 1"),
        ("per_minute('x')", "positive number"),
        ("per_minute(1, 2)", "are refused"),
        ("stratified('', 1)", "`by` must be"),
        ("stratified('a', 1, 'day')", "'minute' or 'hour'"),
        ("stratified('a', 0)", r"stratified\('a', 0\): the number of runs"),
        ("stratified(agent_name, 1)", "a quoted text"),
        ("below('a', 'b')", "must be a number"),
        ("below(3, 0.5)", "scorer's id"),
        ("used_tool('')", "tool's name"),
        ("attribute(1)", "attribute's name"),
        ("when(f)", "neither a number"),
        ("ratio(**{})", "unknown option"),
        ("slower_than(1e999)", "positive"),
        ("(" * 500, "not a sampler"),
    ],
)
def test_wrong_words_are_named(words: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        sampling.parse(words)
