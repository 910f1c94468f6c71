"""Captured items on their way to the engine's process.

They go as plain tuples, which marshal writes many times faster than pickle writes objects.
"""

from __future__ import annotations

import marshal
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from otel_evals.capture import EndedSpan, LogOfSpan
from otel_evals.model import SpanEvent, SpanRecord

__all__ = ["RecordedSpan", "decode", "encode"]

_KINDS = {kind.value: kind.name for kind in SpanKind}
_UNSET = StatusCode.UNSET
_STATUS: tuple[Literal["UNSET", "OK", "ERROR"], ...] = ("UNSET", "OK", "ERROR")


class RecordedSpan(EndedSpan):
    """An ended span that has become a record on its way."""

    __slots__ = ("_record",)

    def __init__(self, record: SpanRecord, owner: int) -> None:
        self._record = record
        self.owner = owner

    def record(self) -> SpanRecord:
        """The span as dialects read it."""
        return self._record


def encode(items: Sequence[EndedSpan | LogOfSpan]) -> bytes:
    """Items as bytes; on the sending thread, not the application's."""
    resources: dict[int, dict[str, Any]] = {}
    rows = [_span_row(i, resources) if isinstance(i, EndedSpan) else _log_row(i) for i in items]
    try:
        return marshal.dumps(rows)
    except ValueError:  # a subclass of str, as enumerations are, or a value that should not be there
        return marshal.dumps(_simple(rows))


def decode(data: bytes) -> Iterator[RecordedSpan | LogOfSpan]:
    """The items again."""
    for row in marshal.loads(data):
        yield _log(row) if len(row) == 6 else _span(row)


def _span_row(item: EndedSpan, resources: dict[int, dict[str, Any]]) -> tuple[Any, ...]:
    span = item.span
    context: Any = span.context
    state, attributes, events = context.trace_state, span.attributes, span.events
    parent, scope, status, resource = span.parent, span.instrumentation_scope, span.status, span.resource
    shared = resources.get(id(resource))
    if shared is None:
        shared = resources[id(resource)] = dict(resource.attributes)
    return (
        context.trace_id,
        context.span_id,
        parent.span_id if parent else 0,
        item.owner,
        span.name,
        span.kind._value_,
        span.start_time or 0,
        span.end_time,
        _plain(attributes),
        [(e.name, e.timestamp, _plain(e.attributes)) for e in events] if events else (),
        0 if status.status_code is _UNSET else status.status_code.value,
        status.description or "",
        (scope.name if scope else "") or "",
        (scope.version if scope else "") or "",
        shared,
        context.trace_flags & 0xFF,
        state.to_header() if state else "",
        parent is not None and parent.is_remote,
        span.dropped_attributes,
    )


def _log_row(item: LogOfSpan) -> tuple[Any, ...]:
    event = item.event
    return item.trace_id, item.span_id, event.name, event.time, dict(event.attributes), event.body


def _span(row: tuple[Any, ...]) -> RecordedSpan:
    (
        trace_id, span_id, parent, owner, name, kind, start, end, attributes, events, status, message,
        scope, scope_version, resource, flags, state, remote, dropped,
    ) = row  # fmt: skip
    record = SpanRecord(
        trace_id=format_trace_id(trace_id),
        span_id=format_span_id(span_id),
        parent_span_id=format_span_id(parent) if parent else None,
        name=name,
        kind=_KINDS[kind],
        start_time=start,
        end_time=end,
        attributes=attributes,
        events=tuple(SpanEvent(name=n, time=t, attributes=a) for n, t, a in events),
        status=_STATUS[status],
        status_message=message,
        scope_name=scope,
        scope_version=scope_version,
        resource=resource,
        trace_flags=flags,
        trace_state=state,
        parent_is_remote=remote,
        dropped_attributes=dropped,
    )
    return RecordedSpan(record, owner)


def _log(row: tuple[Any, ...]) -> LogOfSpan:
    trace_id, span_id, name, time, attributes, body = row
    return LogOfSpan(trace_id, span_id, SpanEvent(name=name, time=time, attributes=attributes, body=body))


def _plain(attributes: Any) -> dict[str, Any]:
    """Attributes as a dict; the SDK's own copy is many times faster than iterating over them."""
    try:
        copied = attributes.copy()
    except AttributeError:
        copied = attributes or {}
    return copied if type(copied) is dict else dict(copied)


def _simple(value: Any) -> Any:
    """The value, of the types that marshal knows."""
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if isinstance(value, Mapping):
        return {_simple(k): _simple(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return (
            type(value)(map(_simple, value)) if type(value) in (list, tuple) else tuple(map(_simple, value))
        )
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return repr(value)
