"""Which received spans and log records may be judged."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals._internal.capture.items import CapturedLog, RecordedSpan, UnclaimedSpan
from otel_evals._internal.sampling.consistent import threshold
from otel_evals._internal.trust.keys import proof_of, signature
from otel_evals.sampling import is_sampled
from otel_evals_gateway._internal.receiver.selection import Selection, Selector
from tests.support.trace_builder import KNOWN_CONVENTIONS

CHAT = {"gen_ai.operation.name": "chat"}


def selector(ceiling: float = 1.0, most: int = 5) -> Selector:
    return Selector(KNOWN_CONVENTIONS, ceiling, most)


def spans_of(*spans: dict[str, Any], scope: str = "app") -> Any:
    request = ExportTraceServiceRequest()
    scoped = request.resource_spans.add().scope_spans.add()
    scoped.scope.name = scope
    for fields in spans:
        attributes = fields.pop("attributes", CHAT)
        span = scoped.spans.add(**{"trace_id": b"\x01" * 16, "span_id": b"\x02" * 8, **fields})
        for key, value in attributes.items():
            span.attributes.add(key=key).value.string_value = value
    return request


def select(*spans: dict[str, Any], **options: Any) -> Selection:
    return selector().spans(spans_of(*spans, **options))


def test_claimed_spans_are_records_and_others_are_links() -> None:
    selection = select({}, {"span_id": b"\x03" * 8, "parent_span_id": b"\x02" * 8, "attributes": {"a": "b"}})
    claimed, link = selection.items
    assert isinstance(claimed, RecordedSpan)
    assert claimed.span.attributes == CHAT
    assert link == UnclaimedSpan("01" * 16, "03" * 8, "02" * 8)
    assert selection.traces == {"01" * 16}
    assert selection.places == [(0, 0, 0), (0, 0, 1)]


def test_a_parent_of_zeros_is_none() -> None:
    selection = select({"parent_span_id": bytes(8)})
    assert selection.roots == 1
    assert selection.claimed[0, 0, 0].span.parent_span_id is None


def test_what_is_ours_or_marked_is_passed_over() -> None:
    assert select({}, scope="otel_evals").items == []
    signed = f"vendor=1,otel_evals={signature()}"
    assert select({"trace_state": signed}).items == []
    assert select({"trace_state": "vendor=1,otel_evals=1"}).items, "a stranger's"
    trusting = Selector(KNOWN_CONVENTIONS, 1.0, 4, trust_remote=True)
    assert trusting.spans(spans_of({"trace_state": "vendor=1,otel_evals=1"})).items == []
    proof = proof_of("01" * 16, "02" * 8)
    assert select({"attributes": {**CHAT, "otel_evals.internal.proof": proof}}).items == []
    for forged in (
        {"otel_evals.internal": "true"},
        {"otel_evals.internal.proof": proof_of("01" * 16, "03" * 8)},
    ):
        selection = select({"attributes": {**CHAT, **forged}})
        assert (len(selection.items), selection.ignored) == (1, {"mark_not_signed": 1})
        assert trusting.spans(spans_of({"attributes": {**CHAT, **forged}})).items == []


def test_spans_that_are_not_scored_are_counted_by_reason() -> None:
    assert select({}, {}, scope="otel_evals").ignored == {"evaluation_span": 2}
    assert select({"trace_state": f"otel_evals={signature()}"}).ignored == {"marked": 1}
    assert selector(0.0).spans(spans_of({})).ignored == {"sampled_out": 1}


def test_malformed_spans_are_rejected_with_the_reason() -> None:
    many = {**CHAT, **{str(n): "x" for n in range(5)}}
    selection = select(
        {"trace_id": b"\x01"},
        {"trace_id": bytes(16)},
        {"span_id": b""},
        {"span_id": bytes(8)},
        {"parent_span_id": b"\x01" * 5},
        {"attributes": many},
        {},
    )
    assert selection.seen == 7
    assert selection.rejected == {
        "no valid trace id": 2,
        "no valid span id": 2,
        "no valid parent span id": 1,
        "more than 5 attributes": 1,
    }
    assert len(selection.items) == 1


def test_a_trace_is_kept_if_and_only_if_some_rule_can_sample_it() -> None:
    ids = [n.to_bytes(16) for n in range(1, 500)]
    selection = selector(0.2).spans(spans_of(*({"trace_id": i} for i in ids)))
    wanted = {i.hex() for i in ids if is_sampled(0.2, int.from_bytes(i))}
    assert selection.traces == wanted
    assert 50 < len(wanted) < 150


def test_randomness_in_the_tracestate_decides_where_it_is_trusted() -> None:
    states = {"ot=rv:ffffffffffffff": True, "ot=rv:00000000000000": False}
    trusting = Selector(KNOWN_CONVENTIONS, 0.5, 5, trust_remote=True)
    for state, kept in states.items():
        assert bool(trusting.spans(spans_of({"trace_state": state})).items) is kept
    found = [bool(selector(0.5).spans(spans_of({"trace_state": state})).items) for state in states]
    assert found[0] == found[1], "a stranger's randomness"


def test_a_head_sampler_s_threshold_is_kept_and_its_randomness_replaced() -> None:
    """The trace's sender chose its id and `rv`; the threshold still says how many runs it stands for."""
    kept = 0
    for number in range(400):
        trace_id = (number << 56 | 0xFF_FFFF_FFFF_FFFF).to_bytes(16)
        sent = spans_of({"trace_id": trace_id, "trace_state": "vendor=1,ot=th:8;rv:ffffffffffffff"})
        for item in selector(0.5).spans(sent).items:
            assert isinstance(item, RecordedSpan)
            state = item.span.trace_state
            assert state.endswith(",vendor=1")
            assert threshold(0.5, state) == threshold(0.5, "ot=th:8")
            assert is_sampled(0.5, int.from_bytes(trace_id), state)
            kept += 1
    assert 140 < kept < 260


def test_spans_that_may_be_judged_are_those_below_no_other_or_all() -> None:
    selection = select({}, {"span_id": b"\x03" * 8, "parent_span_id": b"\x02" * 8})
    assert list(selection.judged(nested=False)) == [(0, 0, 0)]
    assert list(selection.judged(nested=True)) == [(0, 0, 0), (0, 0, 1)]


def test_log_records_of_spans_with_a_name_are_kept() -> None:
    request = ExportLogsServiceRequest()
    scoped = request.resource_logs.add().scope_logs.add()
    ids = {"trace_id": b"\x01" * 16, "span_id": b"\x02" * 8}
    scoped.log_records.add(event_name="gen_ai.choice", time_unix_nano=5, **ids)
    scoped.log_records.add(event_name="gen_ai.choice")
    scoped.log_records.add(**ids)
    named = scoped.log_records.add(**ids)
    named.attributes.add(key="event.name").value.string_value = "gen_ai.user.message"
    request.resource_logs.add().scope_logs.add().scope.name = "otel_evals"
    request.resource_logs[1].scope_logs[0].log_records.add(event_name="gen_ai.evaluation.result", **ids)
    selection = selector().logs(request)
    assert [i.event.name for i in selection.items if isinstance(i, CapturedLog)] == [
        "gen_ai.choice",
        "gen_ai.user.message",
    ]
    assert (selection.seen, selection.places) == (5, [(0, 0, 0), (0, 0, 3)])
    assert selection.ignored == {"unused": 3}, "the counts balance"
    assert selection.traces == {"01" * 16}
