"""Captured items: an ended span of the SDK reads the same as a span from a file would."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    format_span_id,
    format_trace_id,
    set_span_in_context,
)

from otel_evals._internal.capture import items
from otel_evals._internal.capture.items import CapturedSpan
from otel_evals.model import SpanEvent, SpanRecord

ATTRIBUTES = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.text() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.lists(st.text(), max_size=3),
    max_size=4,
)


def ended(span: Any) -> ReadableSpan:
    """The span as the SDK gives it to processors; its fields are read without their properties."""
    return span._readable_span()  # type: ignore[no-any-return]  # the SDK's


def read(span: Any) -> SpanRecord:
    assert isinstance(span, ReadableSpan)
    return CapturedSpan(span, 0).record()


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(SpanKind),
    status=st.sampled_from(StatusCode),
    attributes=ATTRIBUTES,
    events=st.lists(st.tuples(st.text(min_size=1), ATTRIBUTES), max_size=2),
    ids=st.tuples(st.integers(1, 2**128 - 1), st.integers(1, 2**64 - 1)),
    state=st.sampled_from([[], [("ot", "th:8")], [("a", "1"), ("b", "2")]]),
    is_remote=st.booleans(),
)
def test_every_field_of_a_span_is_read(
    kind: SpanKind,
    status: StatusCode,
    attributes: dict[str, Any],
    events: list[tuple[str, dict[str, Any]]],
    ids: tuple[int, int],
    state: list[tuple[str, str]],
    is_remote: bool,
) -> None:
    above = SpanContext(*ids, is_remote=is_remote, trace_flags=TraceFlags(1), trace_state=TraceState(state))
    provider = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
    span = provider.get_tracer("lib", "1.2").start_span(
        "it", set_span_in_context(NonRecordingSpan(above)), kind=kind, attributes=attributes, start_time=5
    )
    for number, (name, own) in enumerate(events):
        span.add_event(name, own, timestamp=6 + number)
    span.set_status(Status(status, "why" if status is StatusCode.ERROR else None))
    span.end(9)
    record = read(span)
    assert read(ended(span)) == record
    assert record == SpanRecord(
        trace_id=format_trace_id(ids[0]),
        span_id=format_span_id(span.get_span_context().span_id),
        parent_span_id=format_span_id(ids[1]),
        name="it",
        kind=kind.name,
        start_time=5,
        end_time=9,
        attributes=dict(span.attributes or {}),  # type: ignore[attr-defined]  # the SDK's
        events=tuple(
            SpanEvent(name=e.name, time=e.timestamp, attributes=dict(e.attributes or {}))
            for e in span.events  # type: ignore[attr-defined]  # the SDK's
        ),
        status=status.name,
        status_message="why" if status is StatusCode.ERROR else "",
        scope_name="lib",
        scope_version="1.2",
        resource={"service.name": "shop"},
        trace_flags=1,
        trace_state=",".join(f"{key}={value}" for key, value in state),
        parent_is_remote=is_remote,
    )


def test_spans_of_two_providers_keep_their_own_resource() -> None:
    """One copy of the resource serves all spans that share it, and no others."""
    spans = [
        TracerProvider(resource=Resource({"service.name": name}), shutdown_on_exit=False)
        .get_tracer("t")
        .start_span(name)
        for name in ("a", "b", "a")
    ]
    assert [read(span).resource for span in spans] == [{"service.name": n} for n in ("a", "b", "a")]


def test_what_the_sdk_dropped_is_told() -> None:
    provider = TracerProvider(span_limits=SpanLimits(max_attributes=2), shutdown_on_exit=False)
    span = provider.get_tracer("t").start_span("it", attributes={"a": 1, "b": 2, "c": 3})
    span.end()
    assert read(span).dropped_attributes == read(ended(span)).dropped_attributes == 1


def test_fields_are_read_without_properties_from_the_sdk_in_use() -> None:
    assert items.read_fields is not items.read_properties


def test_an_sdk_that_keeps_its_values_elsewhere_is_read_by_properties(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(items, "_PROPERTIES", (*items._PROPERTIES[:-1], "no_such_field"))
    assert items._reader() is items.read_properties


def test_spans_of_a_subclass_are_read_by_properties() -> None:
    class Renamed(ReadableSpan):
        @property
        def name(self) -> str:
            return "renamed"

    assert read(Renamed("it", context=SpanContext(1, 2, is_remote=False))).name == "renamed"


def test_a_span_of_nobody_knows_whom_is_read_too() -> None:
    """Made by hand, without scope, parent, times or attributes."""
    context = SpanContext(1, 2, is_remote=False)
    record = read(ReadableSpan("bare", context=context))
    assert (record.trace_id, record.span_id, record.parent_span_id) == (f"{1:032x}", f"{2:016x}", None)
    assert (record.scope_name, record.start_time, record.end_time, dict(record.attributes)) == (
        "",
        0,
        None,
        {},
    )


def test_links_are_kept() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    tracer = provider.get_tracer("t")
    other = tracer.start_span("other")
    span = tracer.start_span("it", links=[Link(other.get_span_context())])
    context = other.get_span_context()
    for each in (span, ended(span)):
        assert read(each).links == ((format_trace_id(context.trace_id), format_span_id(context.span_id)),)
    assert read(other).links == ()
