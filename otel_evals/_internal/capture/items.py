"""Captured items: ended spans that a convention claims, and log records; and the open spans."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple

import msgspec
from opentelemetry.attributes import BoundedAttributes
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, Span
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    DEFAULT_TRACE_STATE,
    SpanKind,
    StatusCode,
    format_span_id,
    format_trace_id,
)

from otel_evals._internal.model import SpanEvent, SpanRecord
from otel_evals._internal.model.records import read_only
from otel_evals._internal.model.spans import size_of_attributes
from otel_evals._internal.sampling.consistent import credible_state

# Places in a `SpanContext`, which is a tuple: its properties cost a call each.
_TRACE_ID: Final = 0
_SPAN_ID: Final = 1
_IS_REMOTE: Final = 2
MOST_LOOKED_AT: Final = 5_000
"""Open spans that are examined at most."""
_STATUS: dict[StatusCode, Literal["UNSET", "OK", "ERROR"]] = {
    StatusCode.UNSET: "UNSET",
    StatusCode.OK: "OK",
    StatusCode.ERROR: "ERROR",
}


_PROPERTIES = (
    "name",
    "context",
    "parent",
    "kind",
    "start_time",
    "end_time",
    "status.status_code",
    "status.description",
    "instrumentation_scope",
    "resource",
    "attributes",
    "events",
    "links",
)


def _reader() -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that reads the fields behind a span's properties, without a Python call for each.

    Falls back to the properties for an SDK that keeps their values elsewhere.
    """
    fields = attrgetter(*["_" + name.replace(".", "._") for name in _PROPERTIES])
    span = ReadableSpan("name", resource=Resource({}), attributes={"key": 1}, events=(Event("name"),))
    try:
        return fields if fields(span) == read_properties(span) else read_properties
    except Exception:
        return read_properties


read_properties = attrgetter(*_PROPERTIES)
read_fields = _reader()

# Spans come in the order of their traces, and share a scope and a resource: the last of each is enough.
_last_trace = (0, format_trace_id(0))
_last_scope: tuple[InstrumentationScope | None, str, str] = (None, "", "")
_last_resource: tuple[Resource | None, dict[str, Any]] = (None, {})


class CapturedSpan(msgspec.Struct, gc=False):
    """A claimed span. Created on the application's threads, so it must be cheap."""

    span: ReadableSpan
    owner: int
    """Span id of the nearest claimed span above that was still open; 0 for none."""
    foreign: bool = False
    """True if its tracestate came with a request from an untrusted sender."""
    lacking: bool = False
    """True if spans below it may have been refused."""

    def record(self) -> SpanRecord:
        """Return the span as conventions read it. Runs for every span: it makes no call that it can avoid."""
        global _last_trace, _last_scope, _last_resource
        span = self.span
        # A subclass may override the properties.
        read = read_fields if type(span) is ReadableSpan else read_properties
        name, context, parent, kind, start, end, code, message, scope, resource, *rest = read(span)
        attributes, events, links = rest
        trace_id, span_id, _, flags, state = context[:5]
        known_id, trace_text = _last_trace
        if trace_id != known_id:
            trace_text = format_trace_id(trace_id)
            # Replaced as one tuple: no thread sees an id with another's text.
            _last_trace = trace_id, trace_text
        known_scope, scope_name, scope_version = _last_scope
        if scope is not known_scope:
            scope_name, scope_version = (scope.name or "", scope.version or "") if scope else ("", "")
            _last_scope = scope, scope_name, scope_version
        known_resource, shared = _last_resource
        if resource is not known_resource:
            shared = read_only(_plain(resource.attributes))
            _last_resource = resource, shared
        state_text = state.to_header() if state is not DEFAULT_TRACE_STATE and state else ""
        # The `ot` entry of an untrusted sender is removed; other entries stay.
        if self.foreign:
            state_text = credible_state(0, state_text, trusted=False)
        dropped = getattr(attributes, "dropped", None)
        copied = attributes.copy() if type(attributes) is BoundedAttributes else _plain(attributes)
        return SpanRecord(
            trace_id=trace_text,
            # As `format_span_id`, without a call.
            span_id=f"{span_id:016x}",
            parent_span_id=f"{parent[_SPAN_ID]:016x}" if parent else None,
            name=name,
            kind="INTERNAL" if kind is SpanKind.INTERNAL else kind.name,
            start_time=start or 0,
            end_time=end,
            attributes=copied if type(copied) is dict else dict(copied),
            # `_dq` is the deque in the SDK's list: its truth costs no Python call.
            events=tuple(map(_event, events)) if getattr(events, "_dq", events) else (),
            status="UNSET" if code is StatusCode.UNSET else _STATUS[code],
            status_message=message or "",
            scope_name=scope_name,
            scope_version=scope_version,
            resource=shared,
            trace_flags=int(flags),
            trace_state=state_text,
            parent_is_remote=parent is not None and parent[_IS_REMOTE],
            dropped_attributes=span.dropped_attributes if dropped is None else dropped,
            links=tuple([_ids(link.context) for link in links]) if getattr(links, "_dq", links) else (),
            spans_dropped=self.lacking,
        )


class RecordedSpan(NamedTuple):
    """A claimed span that is already a record; fields as in `CapturedSpan`."""

    span: SpanRecord
    owner: int

    def record(self) -> SpanRecord:
        """Return the span."""
        return self.span


class CapturedLog(NamedTuple):
    trace_id: int
    span_id: int
    event: SpanEvent


class UnclaimedSpan(NamedTuple):
    """The place of a received span that no convention claims; claimed spans may be above and below it."""

    trace_id: str
    span_id: str
    parent_span_id: str | None


CapturedItem = CapturedSpan | RecordedSpan | CapturedLog
IntakeItem = CapturedItem | UnclaimedSpan
"""The items that the engine takes, captured in process or received."""


def size_of_sdk_span(span: ReadableSpan) -> int:
    """Return the approximate bytes of a span's attributes and events."""
    *_, attributes, events, _ = (read_fields if type(span) is ReadableSpan else read_properties)(span)
    size = size_of_attributes(_plain(attributes))
    if getattr(events, "_dq", events):
        size += sum([size_of_attributes(_plain(event.attributes)) for event in events])
    return size


def _event(event: Event) -> SpanEvent:
    dropped = getattr(event, "dropped_attributes", 0)
    attributes = _plain(event.attributes)
    return SpanEvent(name=event.name, time=event.timestamp, attributes=attributes, dropped_attributes=dropped)


def _ids(context: Any) -> tuple[str, str]:
    return format_trace_id(context[_TRACE_ID]), format_span_id(context[_SPAN_ID])


def _plain(attributes: Any) -> dict[str, Any]:
    """Return attributes as a dict; the SDK's own copy is many times faster than iterating over them."""
    copied = attributes.copy() if hasattr(attributes, "copy") else attributes or {}
    return copied if type(copied) is dict else dict(copied)


class OpenSpans:
    """The open spans by id. Written on the application's threads, read on the engine's."""

    def __init__(self) -> None:
        self.by_id: dict[int, Span | None] = {}
        """None marks a span of an evaluation."""
        self.checks = False
        """True once the application checks answers: runs below an open span then wait for `grace`."""
        self.guarded: set[int] = set()
        """Ids of the traces that began in a guarded call that has not ended."""

    def of_trace(self, trace_id: int) -> dict[int, Span]:
        """Return the open spans of a trace by id, without evaluations' spans."""
        # A copy: the application's threads change the dict, which fails an iteration.
        spans = dict(self.by_id)
        return {
            i: s for i, s in spans.items() if s is not None and s.get_span_context()[_TRACE_ID] == trace_id
        }

    def upward(self, span_id: int) -> tuple[int, ...]:
        """Return the ids of an open span and those above it, or nothing if one of them was not captured."""
        found: list[int] = []
        while (span := self.by_id.get(span_id)) is not None and len(found) < MOST_LOOKED_AT:
            found.append(span_id)
            parent = span.parent
            if parent is None or parent.is_remote:
                return tuple(found)
            span_id = parent.span_id
        return ()
