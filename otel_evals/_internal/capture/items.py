"""What the ways in hand over: ended spans that a dialect claims, and log records of spans."""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import (
    DEFAULT_TRACE_STATE,
    SpanKind,
    StatusCode,
    format_span_id,
    format_trace_id,
)

from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.sampling.consistent import credible_state

_TRACE_ID: Final = 0
_SPAN_ID: Final = 1
_TRACE_STATE: Final = 4
"""Places in a `SpanContext`, which is a tuple: its properties cost a call each."""
_STATUS: dict[StatusCode, Literal["UNSET", "OK", "ERROR"]] = {
    StatusCode.UNSET: "UNSET",
    StatusCode.OK: "OK",
    StatusCode.ERROR: "ERROR",
}


class CapturedSpan(msgspec.Struct, gc=False):
    """A claimed span on its way to assembly; made on the application's threads, so as cheap as can be."""

    span: ReadableSpan
    owner: int
    """Span id of the nearest claimed span above that was still open; 0 for none."""
    foreign: bool = False
    """Whether its tracestate came with a request, from somebody who is not trusted."""
    lacking: bool = False
    """Whether spans below it may have been refused."""

    def record(self) -> SpanRecord:
        """The span as dialects read it."""
        record = to_record(self.span)
        if self.foreign:
            record = replace(record, trace_state=credible_state(0, record.trace_state, trusted=False))
        return replace(record, spans_dropped=True) if self.lacking else record


class RecordedSpan(NamedTuple):
    """A claimed span that has become a record on its way."""

    span: SpanRecord
    owner: int
    """As in `CapturedSpan`."""

    def record(self) -> SpanRecord:
        """The span as dialects read it."""
        return self.span


class CapturedLog(NamedTuple):
    """A log record that belongs to a span, on its way to assembly."""

    trace_id: int
    span_id: int
    event: SpanEvent


class UnclaimedSpan(NamedTuple):
    """The place of a received span that no dialect claims: claimed spans may stand above and below it."""

    trace_id: str
    span_id: str
    parent_span_id: str | None


CapturedItem = CapturedSpan | RecordedSpan | CapturedLog
IntakeItem = CapturedItem | UnclaimedSpan
"""What the engine takes: what was captured in process, or received."""


def to_record(span: ReadableSpan) -> SpanRecord:
    """The span as dialects read it."""
    context: Any = span.context
    scope = span.instrumentation_scope
    parent = span.parent
    status, kind, state = span.status, span.kind, context[_TRACE_STATE]
    return SpanRecord(
        trace_id=_trace_id(context[_TRACE_ID]),
        span_id=format_span_id(context[_SPAN_ID]),
        parent_span_id=format_span_id(parent[_SPAN_ID]) if parent else None,
        name=span.name,
        kind="INTERNAL" if kind is SpanKind.INTERNAL else kind.name,
        start_time=span.start_time or 0,
        end_time=span.end_time,
        attributes=_plain(span.attributes),
        events=_events(span) if getattr(span, "_events", True) else (),
        status="UNSET" if status.status_code is StatusCode.UNSET else _STATUS[status.status_code],
        status_message=status.description or "",
        scope_name=(scope.name if scope else "") or "",
        scope_version=(scope.version if scope else "") or "",
        resource=_resource(span.resource),
        trace_flags=int(context.trace_flags),
        trace_state=state.to_header() if state is not DEFAULT_TRACE_STATE and state else "",
        parent_is_remote=parent is not None and parent.is_remote,
        dropped_attributes=span.dropped_attributes,
        links=_links(span) if getattr(span, "_links", True) else (),
    )


def _events(span: ReadableSpan) -> tuple[SpanEvent, ...]:
    """Only called where there are any: the SDK's properties copy its lists, at a microsecond each."""
    return tuple(
        [SpanEvent(name=e.name, time=e.timestamp, attributes=_plain(e.attributes)) for e in span.events]
    )


def _links(span: ReadableSpan) -> tuple[tuple[str, str], ...]:
    return tuple([_ids(link.context) for link in span.links])


def _ids(context: Any) -> tuple[str, str]:
    return format_trace_id(context[_TRACE_ID]), format_span_id(context[_SPAN_ID])


_last_trace = (0, format_trace_id(0))
"""A trace's spans come one after the other, and one text serves them all."""


def _trace_id(number: int) -> str:
    global _last_trace
    known, text = _last_trace
    if number != known:
        text = format_trace_id(number)
        _last_trace = (number, text)
    return text


_last_resource: tuple[Resource | None, dict[str, Any]] = (None, {})
"""A process's spans share one resource, so one copy of its attributes serves them all."""


def _resource(resource: Resource) -> dict[str, Any]:
    global _last_resource
    known, attributes = _last_resource
    if resource is not known:
        attributes = _plain(resource.attributes)
        _last_resource = (resource, attributes)
    return attributes


def _plain(attributes: Any) -> dict[str, Any]:
    """Attributes as a dict; the SDK's own copy is many times faster than iterating over them."""
    copied = attributes.copy() if hasattr(attributes, "copy") else attributes or {}
    return copied if type(copied) is dict else dict(copied)
