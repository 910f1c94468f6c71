"""Spans whose ids are not hex, as hand-written files and some exports have them."""

from __future__ import annotations

import pytest

from otel_evals._internal.read.runs import find_runs
from otel_evals._internal.sampling.consistent import randomness_source
from otel_evals.model import SpanRecord
from tests.support.trace_builder import KNOWN_CONVENTIONS

OPENINFERENCE = {"openinference.span.kind": "AGENT", "input.value": "Hello", "output.value": "Good day"}
TRACELOOP = {
    "traceloop.span.kind": "agent",
    "traceloop.entity.input": "Hello",
    "traceloop.entity.output": "Good day",
}


def _span(trace_id: str, attributes: dict[str, str], state: str) -> SpanRecord:
    return SpanRecord(
        trace_id=trace_id, span_id="1" * 16, parent_span_id=None, attributes=attributes, trace_state=state
    )


@pytest.mark.parametrize("attributes", [OPENINFERENCE, TRACELOOP], ids=["openinference", "openllmetry"])
@pytest.mark.parametrize("trace_id", ["", "trace-1", "550e8400-e29b-41d4-a716-446655440000"])
def test_a_malformed_trace_id_with_a_tracestate_is_read(trace_id: str, attributes: dict[str, str]) -> None:
    (run,) = find_runs([_span(trace_id, attributes, "vendor=1,ot=th:8")], KNOWN_CONVENTIONS)
    assert (run.input, run.output) == ("Hello", "Good day")
    assert run.trace_state == "vendor=1", "no sampler derived a threshold from such an id"


def test_a_run_with_a_malformed_trace_id_can_be_sampled() -> None:
    (run,) = find_runs([_span("trace-1", OPENINFERENCE, "vendor=1")], KNOWN_CONVENTIONS)
    (other,) = find_runs([_span("trace-2", OPENINFERENCE, "vendor=1")], KNOWN_CONVENTIONS)
    assert randomness_source(run) != randomness_source(other)
