"""Spans as the store keeps them: compact JSON that gives equal spans back, and never runs code.

Attribute values are what OpenTelemetry allows; log bodies may nest. Sequences come back as tuples inside
attributes, as the SDK has them, and bytes as bytes.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from otel_evals.model import SpanEvent, SpanRecord

__all__ = ["decode", "encode"]

_BYTES = "\x00bytes"


def encode(spans: Sequence[SpanRecord], links: Mapping[str, str | None]) -> bytes:
    """Spans and the links between them as bytes.

    Raises:
        ValueError: an attribute holds something that JSON cannot say, such as a circle.
    """
    resources: list[Any] = []
    rows = [_row(span, _index(resources, span.resource)) for span in spans]
    whole = {"links": dict(links), "resources": resources, "spans": rows}
    return json.dumps(whole, separators=(",", ":"), default=_other).encode("ascii")


def decode(payload: bytes) -> tuple[tuple[SpanRecord, ...], dict[str, str | None]]:
    """The spans and links that `encode` was given.

    Raises:
        ValueError: these bytes are no payload.
    """
    try:
        whole = json.loads(payload)
        resources = [_attributes(each) for each in whole["resources"]]
        return tuple(_span(row, resources) for row in whole["spans"]), whole["links"]
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(f"not a spooled run: {error!r}") from error


def _index(resources: list[Any], resource: Mapping[str, Any]) -> int:
    """Spans of one process share their resource: it is kept once."""
    for index, known in enumerate(resources):
        if known is resource or known == resource:
            return index
    resources.append(resource)
    return len(resources) - 1


def _row(span: SpanRecord, resource: int) -> list[Any]:
    return [
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.name,
        span.kind,
        span.start_time,
        span.end_time,
        span.attributes,
        [_event_row(event) for event in span.events],
        [_event_row(log) for log in span.logs],
        span.status,
        span.status_message,
        span.scope_name,
        span.scope_version,
        resource,
        span.trace_flags,
        span.trace_state,
        span.parent_is_remote,
        span.dropped_attributes,
    ]


def _event_row(event: SpanEvent) -> list[Any]:
    return [event.name, event.time, event.attributes, event.body]


def _span(row: list[Any], resources: list[Any]) -> SpanRecord:
    return SpanRecord(
        trace_id=row[0],
        span_id=row[1],
        parent_span_id=row[2],
        name=row[3],
        kind=row[4],
        start_time=row[5],
        end_time=row[6],
        attributes=_attributes(row[7]),
        events=tuple(_event(each) for each in row[8]),
        logs=tuple(_event(each) for each in row[9]),
        status=row[10],
        status_message=row[11],
        scope_name=row[12],
        scope_version=row[13],
        resource=resources[row[14]],
        trace_flags=row[15],
        trace_state=row[16],
        parent_is_remote=row[17],
        dropped_attributes=row[18],
    )


def _event(row: list[Any]) -> SpanEvent:
    return SpanEvent(name=row[0], time=row[1], attributes=_attributes(row[2]), body=_body(row[3]))


def _attributes(read: dict[str, Any]) -> dict[str, Any]:
    for key, value in read.items():
        if type(value) is list or type(value) is dict:
            read[key] = _value(value)
    return read


def _value(value: Any) -> Any:
    if type(value) is list:
        return tuple(_value(each) for each in value)
    return _body(value) if type(value) is dict else value


def _body(value: Any) -> Any:
    """A log's body, its bytes restored."""
    if type(value) is dict:
        if len(value) == 1 and _BYTES in value:
            return base64.b64decode(value[_BYTES])
        return {key: _body(each) for key, each in value.items()}
    return [_body(each) for each in value] if type(value) is list else value


def _other(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return {_BYTES: base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        return {str(key): each for key, each in value.items()}
    return list(value) if isinstance(value, Sequence | set | frozenset) else str(value)
