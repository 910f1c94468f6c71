"""Encodes spans for the queue's file: compact JSON that decodes to equal spans, and never runs code.

The first line has the resources and links, then each span has a line: encoding a large run in one call would
keep the interpreter's lock from other threads all that time. Sequences in attributes decode to tuples, as the
SDK has them, and bytes to bytes.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any

from msgspec.structs import replace

from otel_evals._internal.model import SpanEvent, SpanRecord

_BYTES = "\x00bytes"
_SPAN = SpanRecord.__struct_fields__
_EVENT = SpanEvent.__struct_fields__
_span_values = attrgetter(*_SPAN)
_LINKS = _SPAN.index("links")
"""The first field that rows of earlier versions lack."""
_RESOURCE, _EVENTS, _LOGS = (_SPAN.index(name) for name in ("resource", "events", "logs"))
_event_row = attrgetter(*_EVENT)


class TooLargeError(Exception):
    """The encoded spans are larger than allowed."""


def encode(
    spans: Sequence[SpanRecord], links: Mapping[str, str | None], max_bytes: int = sys.maxsize
) -> bytes:
    """Encode spans and the links between them; any error if JSON cannot represent an attribute."""
    rows, resources = _span_rows(spans)
    common = {"links": dict(links), "resources": resources, "count": len(rows)}
    lines, size = list[bytes](), 0
    for value in (common, *rows):  # stops early: a control character of a text takes six bytes
        lines.append(_line(value))
        size += len(lines[-1]) + 1
        if size > max_bytes:
            raise TooLargeError
    return b"\n".join(lines)


def decode(payload: bytes) -> tuple[tuple[SpanRecord, ...], dict[str, str | None]]:
    """Invert `encode`; raise ValueError if the bytes are not an encoded run."""
    try:
        first, *lines = payload.split(b"\n")
        common = json.loads(first)
        rows = map(json.loads, lines) if "count" in common else iter(common["spans"])  # of earlier versions
        resources = [_attributes(each) for each in common["resources"]]
        spans = tuple(_restored(_span_of(row, resources)) for row in rows)
        links, count = common["links"], common.get("count", len(spans))
        if count != len(spans) or not all(map(_is_span, spans)) or type(links) is not dict:
            raise TypeError("a value of the wrong type")
        return spans, links
    except (KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a stored run: {error!r}") from error


def _line(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_other)
    return text.encode("utf-8", "surrogatepass")  # as `json.loads` decodes bytes


def _is_span(span: SpanRecord) -> bool:
    """Check the types that everything else relies on: other programs may have written the file."""
    texts = span.trace_id, span.span_id, span.name, span.status, span.trace_state
    return (
        all(type(each) is str for each in texts)
        and type(span.attributes) is dict
        and type(span.parent_span_id) in (str, NoneType)
        and type(span.start_time) is type(span.trace_flags) is int
        and type(span.end_time) in (int, NoneType)
    )


def _restored(span: SpanRecord) -> SpanRecord:
    """Restore tuples and bytes, which JSON does not have."""
    _attributes(span.attributes)
    if not (span.events or span.logs):
        return span
    return replace(
        span,
        events=tuple(_restored_event(event) for event in span.events),
        logs=tuple(_restored_event(log) for log in span.logs),
    )


def _restored_event(event: SpanEvent) -> SpanEvent:
    _attributes(event.attributes)
    return event if event.body is None else replace(event, body=_body(event.body))


def _attributes(read: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = read
    for key, value in attributes.items():
        if type(value) is list or type(value) is dict:
            attributes[key] = _value(value)
    return attributes


def _value(value: Any) -> Any:
    if type(value) is list:
        return tuple(_value(each) for each in value)
    return _body(value) if type(value) is dict else value


def _body(value: Any) -> Any:
    """Restore the bytes in a log's body."""
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


# --- rows: a span's fields in order, with the index of the resource, which spans of a process share ---


def _event_of(row: Sequence[Any]) -> SpanEvent:
    if len(row) != len(_EVENT):
        raise TypeError(f"a row of {len(row)} values is no event")
    return SpanEvent(**dict(zip(_EVENT, row, strict=True)))


def _span_rows(spans: Iterable[SpanRecord]) -> tuple[list[list[Any]], list[Mapping[str, Any]]]:
    """Return rows of spans, and the resources that rows refer to by index."""
    resources: list[Mapping[str, Any]] = []
    rows = []
    for span in spans:
        row = list(_span_values(span))
        row[_RESOURCE] = _index(resources, span.resource)
        if span.events:
            row[_EVENTS] = [_event_row(event) for event in span.events]
        if span.logs:
            row[_LOGS] = [_event_row(log) for log in span.logs]
        rows.append(row)
    return rows, resources


def _span_of(row: Sequence[Any], resources: Sequence[Mapping[str, Any]]) -> SpanRecord:
    """Return the span of a row."""
    if not _LINKS <= len(row) <= len(_SPAN):
        raise TypeError(f"a row of {len(row)} values is no span")
    values = dict(zip(_SPAN, row, strict=False))
    values["resource"] = resources[values["resource"]]
    values["events"] = tuple([_event_of(each) for each in values["events"]])
    values["logs"] = tuple([_event_of(each) for each in values["logs"]])
    if "links" in values:
        values["links"] = tuple([(trace_id, span_id) for trace_id, span_id in values["links"]])
    return SpanRecord(**values)


def _index(resources: list[Mapping[str, Any]], resource: Mapping[str, Any]) -> int:
    for index, known in enumerate(resources):
        if known is resource or known == resource:
            return index
    resources.append(resource)
    return len(resources) - 1
