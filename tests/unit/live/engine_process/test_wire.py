"""Whatever a span or a log record holds, it arrives as it would have been read on the spot."""

from __future__ import annotations

import enum
import pickle
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.trace import SpanKind, Status, StatusCode

from otel_evals import Score
from otel_evals._internal.capture.items import CapturedLog, CapturedSpan, RecordedSpan, to_record
from otel_evals._internal.live.engine_process.wire import decode, encode
from otel_evals.model import Message, Operation, OperationKind, Part, Run, SpanEvent, SpanRecord, StepRecord


class Mood(str, enum.Enum):  # noqa: UP042 - the older form, which is not the same
    """What some instrumentations put into attributes."""

    GOOD = "good"


class Weight(float):
    """A float that is none."""


VALUES = (
    st.text()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.sampled_from([Mood.GOOD, Weight(1.5)])
    | st.lists(st.text())
    | st.lists(st.integers(0, 9) | st.booleans(), max_size=3).map(tuple)
)
ATTRIBUTES = st.dictionaries(st.text(min_size=1), VALUES, max_size=6)
BODIES = st.recursive(
    st.none() | VALUES, lambda b: st.lists(b, max_size=3) | st.dictionaries(st.text(), b, max_size=3)
)


@settings(max_examples=60, deadline=None)
@given(
    attributes=ATTRIBUTES,
    events=st.lists(st.tuples(st.text(min_size=1), ATTRIBUTES), max_size=3),
    status=st.sampled_from(StatusCode),
    kind=st.sampled_from(SpanKind),
    owner=st.integers(0, 2**64 - 1),
)
def test_a_span_arrives_as_it_was(
    attributes: dict[str, Any], events: list[Any], status: StatusCode, kind: SpanKind, owner: int
) -> None:
    tracer = TracerProvider().get_tracer("tests", "1.2")
    with tracer.start_as_current_span("root"), tracer.start_as_current_span("it", kind=kind) as span:
        span.set_attributes(attributes)
        span.set_status(Status(status, "why" if status is StatusCode.ERROR else None))
        for name, given_ in events:
            span.add_event(name, given_)
    assert isinstance(span, Span)
    assert span is not trace.INVALID_SPAN
    _, (root, arrived) = decode(encode([CapturedSpan(span, 0), CapturedSpan(span, owner)]))
    assert isinstance(arrived, RecordedSpan)
    assert isinstance(root, RecordedSpan)
    assert arrived.record() == root.record() == to_record(span)
    assert arrived.owner == owner


@settings(max_examples=60, deadline=None)
@given(attributes=ATTRIBUTES, body=BODIES)
def test_a_log_record_arrives_as_it_was(attributes: dict[str, Any], body: Any) -> None:
    event = SpanEvent(name="gen_ai.choice", time=5, attributes=attributes, body=body)
    _, (arrived,) = decode(encode([CapturedLog(1 << 127, 7, event)]))
    assert isinstance(arrived, CapturedLog)
    assert (arrived.trace_id, arrived.span_id, arrived.event) == (1 << 127, 7, event)


def test_what_no_format_knows_becomes_text() -> None:
    """A value that has no place in telemetry costs neither its span nor the batch."""
    odd = object()
    _, (arrived,) = decode(encode([CapturedLog(1, 2, SpanEvent(name="odd", body={"x": [odd]}))]))
    assert isinstance(arrived, CapturedLog)
    assert arrived.event.body == {"x": [repr(odd)]}


def test_a_packed_run_is_the_same_run() -> None:
    """The fast packing of records agrees with what they were, cached answers included."""
    span = SpanRecord(trace_id="a" * 32, span_id="b" * 16, attributes={"n": (1, 2)})
    said = (Message(role="user", parts=(Part(kind="text", text="hi"),)),)
    root = Operation(span=span, kind=OperationKind.AGENT, dialect="d", input_messages=said)
    run = Run(
        trace_id="a" * 32,
        root_span_id="b" * 16,
        root_kind=OperationKind.AGENT,
        operations=(root,),
        input_messages=said,
    )
    for each in (
        run,
        replace(run, output="x", models=("m",)),
        Score(value=1.0, steps=(StepRecord(name="s"),)),
    ):
        assert pickle.loads(pickle.dumps(each)) == each
    assert run.input == "hi"
    copy = pickle.loads(pickle.dumps(run))
    assert (copy.input, copy.root, copy.output) == ("hi", root, None)
