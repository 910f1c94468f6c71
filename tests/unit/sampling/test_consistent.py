"""Composition with OpenTelemetry's consistent sampling, against the SDK's own implementation of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace._sampling_experimental import composable_traceid_ratio_based, composite_sampler
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import TraceState

from otel_evals import Rule, sampling
from otel_evals._internal.sampling.consistent import credible_state, keyed_state, probability_of, randomness
from otel_evals.sampling import is_sampled, threshold
from otel_evals.scorers import scorer
from tests.support.traffic import Live, agent_run

RANGE = 1 << 56
TRACE_IDS = st.integers(1, (1 << 128) - 1)
RATES = st.floats(1e-6, 1.0)
BITS = st.integers(0, RANGE - 1)


def head(rate: float, trace_id: int, state: str = "") -> tuple[bool, str]:
    """What OpenTelemetry's own consistent sampler decides, and the tracestate it leaves."""
    sampler = composite_sampler(composable_traceid_ratio_based(rate))
    given_state = TraceState.from_header([state]) if state else None
    result = sampler.should_sample(Context(), trace_id, "x", trace_state=given_state)
    return result.decision.is_sampled(), result.trace_state.to_header() if result.trace_state else ""


@given(TRACE_IDS, RATES)
def test_without_sampling_of_ours_everything_the_head_kept_is_picked(trace_id: int, rate: float) -> None:
    """Rate one rejects nothing that OpenTelemetry accepted, and records the head's own rate."""
    kept, state = head(rate, trace_id)
    if kept:
        assert sampling.is_sampled(1.0, trace_id, state)
        recorded = sampling.recorded_probability(sampling.Chance(1.0), state)
        assert recorded == pytest.approx(rate, abs=1e-9)


@given(TRACE_IDS, RATES, RATES)
def test_head_and_rule_together_are_one_head_of_the_product(
    trace_id: int, first: float, second: float
) -> None:
    """What both pick is exactly what OpenTelemetry would have picked at the product of the rates."""
    kept, state = head(first, trace_id)
    both = kept and sampling.is_sampled(second, trace_id, state)
    bits = trace_id & (RANGE - 1)
    product, _ = head(first * second, trace_id)
    near_the_edge = abs(bits - (1 - first * second) * RANGE) < 2048  # the head rounds its threshold
    assert both == product or near_the_edge


@given(TRACE_IDS, BITS, RATES, RATES)
def test_explicit_randomness_is_used_by_both(trace_id: int, bits: int, first: float, second: float) -> None:
    """With `rv`, the trace id no longer matters to anyone."""
    state = f"ot=rv:{bits:014x}"
    kept, left = head(first, trace_id, state)
    assert sampling.randomness(trace_id, left or state) == bits
    assert kept == (bits >= sampling.threshold(first)) or abs(bits - sampling.threshold(first)) < 2048
    if kept:
        assert sampling.is_sampled(second, trace_id, left) == sampling.is_sampled(second, trace_id + 1, left)


@pytest.mark.parametrize(
    ("state", "threshold", "bits"),
    [
        ("ot=th:8", RANGE // 2, None),
        ("ot=th:0", 0, None),
        ("ot=th:c;rv:ffffffffffffff", RANGE // 4 * 3, RANGE - 1),
        ("congo=t61rcWkgMzE,ot=th:8;xx:y", RANGE // 2, None),
        ("ot=xx:y;th:8", RANGE // 2, None),
        ("rojo=00f067aa0ba902b7 , ot=th:8", RANGE // 2, None),
        ("ot=rv:00000000000001", 0, 1),
    ],
)
def test_the_forms_of_the_specification_are_read(state: str, threshold: int, bits: int | None) -> None:
    """Trailing zeros left out, unknown fields beside, other vendors' entries around."""
    assert sampling.threshold(1.0, state) == threshold
    assert sampling.randomness(12345, state) == (12345 if bits is None else bits)


@pytest.mark.parametrize(
    "state",
    [
        "ot=th:",
        "ot=th:123456789abcdef",
        "ot=th:G",
        "ot=th:A",
        "ot=th:-1",
        "ot=th:+8",
        "ot=th: 8",
        "ot=th:1_0",
        "ot=th:0x8",
        "ot=rv:1",
        "ot=rv:123456789abcdef",
        "ot=rv:0000000000000G",
        "ot=rv:1_000000000000",
        "notot=th:8",
        "ot",
        "ot=",
        "x=ot=th:8",
    ],
)
def test_what_the_specification_does_not_allow_is_as_if_it_were_not_there(state: str) -> None:
    assert sampling.threshold(0.5, state) == sampling.threshold(0.5)
    assert sampling.randomness(12345, state) == sampling.randomness(12345)


def test_a_real_head_sampled_application_is_scored_at_the_product_of_the_rates() -> None:
    """The SDK's consistent sampler at 1/2, our rule at 1/2: a quarter is scored, and 0.25 is recorded."""
    judge = scorer(id="one", version="1", inline=True)(lambda run: 1.0)
    with Live(Rule(judge, sample=sampling.ratio(0.5)), span_attributes=False) as live:
        provider = TracerProvider(sampler=composite_sampler(composable_traceid_ratio_based(0.5)))
        kept = InMemorySpanExporter()
        provider.add_span_processor(live.pipeline.spans)
        provider.add_span_processor(SimpleSpanProcessor(kept))
        tracer = provider.get_tracer("app")
        traces = [agent_run(tracer) for _ in range(300)]
        assert live.flush()
        bits = {f"{t:032x}": t & (RANGE - 1) for t in traces}
        roots = {f"{s.context.trace_id:032x}" for s in kept.get_finished_spans() if s.parent is None}
        assert roots == {t for t, b in bits.items() if b >= RANGE // 2}
        assert {e.trace_id for e in live.scored.evaluations} == {
            t for t, b in bits.items() if b >= RANGE // 4 * 3
        }
        assert {e.sampled.probability for e in live.scored.evaluations} == {0.25}


@given(st.integers(1, 2**128 - 1), st.text("0123456789abcdef", min_size=1, max_size=14), st.booleans())
def test_a_tracestate_is_believed_only_if_the_trace_could_have_been_recorded(
    trace_id: int, th: str, rv: bool
) -> None:
    state = f"a=b,ot=th:{th}" + (";rv:80000000000000" if rv else "")
    believed = credible_state(trace_id, state)
    assert believed in (state, "a=b")
    assert is_sampled(1.0, trace_id, believed), "a run under `always()` is always sampled"
    assert credible_state(trace_id, state, trusted=False) == "a=b"
    assert credible_state(trace_id, f"{state},c=d", trusted=False) == "a=b,c=d"
    assert probability_of(threshold(1.0, state)) >= 2**-20, "the floor"


@given(TRACE_IDS, BITS, BITS, st.booleans())
def test_a_tracestate_of_unknown_origin_keeps_a_credible_threshold_and_gets_keyed_bits(
    trace_id: int, rejected: int, claimed: int, told: bool
) -> None:
    """The keyed bits are spread over what the head sampler kept; entries of other vendors stay."""
    state = f"ot=th:{rejected:014x}" + f";rv:{claimed:014x}" * told + ",vendor=1"
    credible = is_sampled(1.0, trace_id, state)
    mine = keyed_state(trace_id, state)
    floor = min(rejected, RANGE - (RANGE >> 20)) if credible else 0
    assert threshold(1.0, mine) == (threshold(1.0, state) if credible else 0)
    assert randomness(trace_id, mine) == floor + randomness(trace_id) * (RANGE - floor) // RANGE
    assert mine.split(",")[1:] == ["vendor=1"]
    assert ("th:" in mine) == (floor > 0)
    assert keyed_state(trace_id, "vendor=1") == "vendor=1"
