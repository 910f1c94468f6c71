"""Spans with their events and losses, and their approximate sizes in memory."""

from __future__ import annotations

from collections.abc import Mapping
from sys import getsizeof
from typing import Any, Final, Literal

from msgspec import field
from msgspec.structs import force_setattr

from otel_evals._internal.model.records import ReadOnlyDict, Record, nothing, read_only

_SIMPLE: Final = frozenset((str, int, float, bool, type(None)))
"""Types of most attributes, which nothing can change and `getsizeof` measures."""


class SpanEvent(Record, frozen=True, kw_only=True):
    """A span event, or a log record that belongs to a span."""

    name: str
    time: int = 0
    attributes: Mapping[str, Any] = field(default_factory=nothing)
    body: Any = None
    dropped_attributes: int = 0

    def __post_init__(self) -> None:
        force_setattr(self, "attributes", read_only(self.attributes))
        force_setattr(self, "body", read_only(self.body))


class SpanRecord(Record, frozen=True, kw_only=True):
    """One span, as conventions read it; it ended in process, was received or was read from a file."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str = ""
    kind: str = "INTERNAL"
    """OpenTelemetry's span kind: INTERNAL, SERVER, CLIENT, PRODUCER or CONSUMER."""
    start_time: int = 0
    end_time: int | None = None
    """None when the span never ended."""
    attributes: Mapping[str, Any] = field(default_factory=nothing)
    events: tuple[SpanEvent, ...] = ()
    logs: tuple[SpanEvent, ...] = ()
    """Log records emitted in this span's context, oldest first."""
    status: Literal["UNSET", "OK", "ERROR"] = "UNSET"
    status_message: str = ""
    scope_name: str = ""
    scope_version: str = ""
    resource: Mapping[str, Any] = field(default_factory=nothing)
    trace_flags: int = 1
    trace_state: str = ""
    parent_is_remote: bool = False
    dropped_attributes: int = 0
    links: tuple[tuple[str, str], ...] = ()
    """Trace and span ids of linked spans."""
    spans_dropped: bool = False
    """True if a limit removed spans from its trace that may have been below it."""

    def __post_init__(self) -> None:
        given = self.attributes
        if type(given) is dict:  # most need no further call
            simple = _SIMPLE.issuperset(map(type, given.values()))
            force_setattr(self, "attributes", ReadOnlyDict(given) if simple else read_only(given))
        # Spans share one resource, which their reader has made read-only.
        if type(self.resource) is dict:
            force_setattr(self, "resource", read_only(self.resource))


class Loss(Record, frozen=True):
    """Runs, spans or log records in one trace that are not scored."""

    what: Literal["run", "span", "log"]
    reason: str
    """Low cardinality; `otel_evals._internal.accounting.reasons` has the meanings."""
    trace_id: str
    count: int = 1


_SPAN: Final = 500
_EVENT: Final = 200
_ENTRY: Final = 16
"""Bytes of a place in a container."""
_OTHER: Final = 100


def size_of_span(span: SpanRecord) -> int:
    """Return the bytes of a span with its events and log records, without the resource that spans share."""
    size = _SPAN + len(span.name) + len(span.status_message) + len(span.trace_state)
    size += size_of_attributes(span.attributes)
    if span.events or span.logs:
        size += sum(map(size_of_event, span.events)) + sum(map(size_of_event, span.logs))
    return size + _OTHER * len(span.links)


def size_of_attributes(attributes: Mapping[str, Any]) -> int:
    """Return the bytes of keys and values. Runs for every span, so its loops are in C."""
    size, values = _ENTRY * len(attributes) + sum(map(len, attributes)), attributes.values()
    if _SIMPLE.issuperset(map(type, values)):
        return size + sum(map(getsizeof, values))
    return size + sum(map(size_of_value, values))


def size_of_event(event: SpanEvent) -> int:
    """Return the bytes of an event or a log record."""
    return _EVENT + len(event.name) + size_of_value(event.body) + size_of_attributes(event.attributes)


def size_of_value(value: Any) -> int:
    """Return the bytes of a value and everything in it; it may contain itself."""
    size = 0
    seen: set[int] = set()
    left = [value]
    while left:
        each = left.pop()
        kind = type(each)
        if kind is str or kind is bytes or kind is int or kind is bytearray:
            size += getsizeof(each)
            continue
        size += _OTHER
        if id(each) in seen or not issubclass(kind, (list, tuple, set, frozenset, Mapping)):
            continue
        seen.add(id(each))
        size += _ENTRY * len(each)
        # Of a mapping, these are the keys.
        left.extend(each)
        if issubclass(kind, Mapping):
            left.extend(each.values())
    return size
