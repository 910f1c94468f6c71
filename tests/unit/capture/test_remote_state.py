"""What is believed of requests' headers, counted within bounds."""

from __future__ import annotations

import logging

import pytest
from opentelemetry import baggage
from opentelemetry.context import Context
from opentelemetry.trace import SpanContext, TraceFlags, TraceState

from otel_evals import semconv
from otel_evals._internal.capture.processors import RemoteState
from otel_evals._internal.trust.marks import mark


def remote(trace_id: int, state: str) -> SpanContext:
    header = TraceState.from_header([state])
    return SpanContext(trace_id, 1, is_remote=True, trace_flags=TraceFlags(1), trace_state=header)


def test_a_flood_of_traces_is_remembered_within_a_bound() -> None:
    state = RemoteState()
    for trace_id in range(1, 30_000):
        state.note(remote(trace_id, "ot=th:8"))
        state.note(remote(trace_id, "ot=th:8"))
        state.note(remote(trace_id, "vendor=1"))
    assert state.counts == {"threshold_not_trusted": 29_999}
    assert len(state.traces) == 10_000
    assert 29_999 in state.traces


def test_a_forged_mark_is_told_once_with_the_variable_to_set(caplog: pytest.LogCaptureFixture) -> None:
    state, forged = RemoteState(), baggage.set_baggage(semconv.MARK, "1", Context())
    with caplog.at_level(logging.WARNING):
        assert not any(state.is_ours(forged, None) for _ in range(5))
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert "OTEL_EVALS_TRUST_KEY" in caplog.text
    assert state.counts == {"mark_not_signed": 5}


def test_a_mark_of_this_process_is_believed_and_not_counted() -> None:
    state = RemoteState()
    assert state.is_ours(mark(Context()), None)
    assert not state.is_ours(Context(), None)
    assert state.counts == {}


def test_where_everything_is_trusted_a_bare_mark_counts_and_thresholds_too() -> None:
    state = RemoteState(trust_all=True)
    state.note(remote(1, "ot=th:8"))
    assert state.is_ours(Context(), remote(1, "otel_evals=1"))
    assert (state.traces, state.counts) == ({}, {"marked": 1})
