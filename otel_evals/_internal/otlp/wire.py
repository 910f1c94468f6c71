"""Cuts and joins the bytes of an ExportTraceServiceRequest, to forward spans unchanged.

Walks the envelopes only, not the content of spans. Field numbers are from opentelemetry-proto: resource_spans
1, scope_spans 2, spans 2, attributes of a span 9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

Place = tuple[int, int, int]
"""Indices of resource, scope and span."""

_RESOURCE_SPANS = 1
_SCOPE_SPANS = 2
_SPANS = 2
_ATTRIBUTES = b"\x4a"  # the tag of a span's field 9


@dataclass(slots=True)
class _Field:
    number: int
    start: int  # start including the tag
    inside: int  # start of the content, for fields with a length
    end: int
    has_length: bool


def without(data: bytes, places: Collection[Place]) -> bytes:
    """Return a valid request without the spans at these places; everything else keeps its bytes."""
    affected = {(r, s) for r, s, _ in places}
    blocks = {r for r, _ in affected}
    out: list[bytes] = []
    for r, block in _counted(data, 0, len(data), _RESOURCE_SPANS):
        if r not in blocks:
            out.append(data[block.start : block.end])
            continue
        inner: list[bytes] = []
        for s, scoped in _counted(data, block.inside, block.end, _SCOPE_SPANS):
            if (r, s) not in affected:
                inner.append(data[scoped.start : scoped.end])
                continue
            kept = [
                data[field.start : field.end]
                for i, field in _counted(data, scoped.inside, scoped.end, _SPANS)
                if (r, s, i) not in places
            ]
            inner.append(_wrapped(_SCOPE_SPANS, b"".join(kept)))
        out.append(_wrapped(_RESOURCE_SPANS, b"".join(inner)))
    return b"".join(out)


def parts_of(data: bytes, places: Collection[Place]) -> Iterator[tuple[Place, bytes]]:
    """Yield the spans at these places, each as a separate request with its resource and scope."""
    for r, block in _counted(data, 0, len(data), _RESOURCE_SPANS):
        if all(place[0] != r for place in places):
            continue
        fields = list(_counted(data, block.inside, block.end, _SCOPE_SPANS))
        around = b"".join(data[f.start : f.end] for _, f in fields if f.number != _SCOPE_SPANS)
        for s, scoped in fields:
            if scoped.number != _SCOPE_SPANS or all(place[:2] != (r, s) for place in places):
                continue
            inner = list(_counted(data, scoped.inside, scoped.end, _SPANS))
            beside = b"".join(data[f.start : f.end] for _, f in inner if f.number != _SPANS)
            for i, span in inner:
                if span.number == _SPANS and (r, s, i) in places:
                    yield (r, s, i), envelope(around, beside, data[span.inside : span.end])


def envelope(around: bytes, beside: bytes, span: bytes) -> bytes:
    """Return a request with one span.

    Args:
        around: the other fields of its ResourceSpans.
        beside: the other fields of its ScopeSpans.
        span: its content.
    """
    return _wrapped(_RESOURCE_SPANS, around + _wrapped(_SCOPE_SPANS, beside + _wrapped(_SPANS, span)))


def attribute_bytes(key_value: bytes) -> bytes:
    """Return the bytes of an attribute (a serialized KeyValue) to append to the content of a span."""
    return _ATTRIBUTES + _varint(len(key_value)) + key_value


def opened(part: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the arguments of `envelope` for a part."""
    (block,) = [f for _, f in _counted(part, 0, len(part), _RESOURCE_SPANS)]
    outer = [f for _, f in _counted(part, block.inside, block.end, _SCOPE_SPANS)]
    scoped = next(f for f in outer if f.number == _SCOPE_SPANS)
    inner = [f for _, f in _counted(part, scoped.inside, scoped.end, _SPANS)]
    span = next(f for f in inner if f.number == _SPANS)
    around = b"".join(part[f.start : f.end] for f in outer if f is not scoped)
    beside = b"".join(part[f.start : f.end] for f in inner if f is not span)
    return around, beside, part[span.inside : span.end]


def _counted(data: bytes, start: int, end: int, counted: int) -> Iterator[tuple[int, _Field]]:
    """Yield the fields in a message; fields with one number are counted, others have the count -1."""
    count = -1
    while start < end:
        field = _field(data, start)
        start = field.end
        if field.number == counted and field.has_length:
            count += 1
            yield count, field
        else:
            field.number = 0 if field.number == counted else field.number
            yield -1, field


def _field(data: bytes, start: int) -> _Field:
    tag, at = _read_varint(data, start)
    kind = tag & 7
    if kind == 2:
        length, inside = _read_varint(data, at)
        return _Field(tag >> 3, start, inside, inside + length, has_length=True)
    if kind == 0:
        _, end = _read_varint(data, at)
    elif kind == 1:
        end = at + 8
    elif kind == 5:
        end = at + 4
    else:
        raise ValueError("groups are not part of OTLP")
    return _Field(tag >> 3, start, at, end, has_length=False)


def _wrapped(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
