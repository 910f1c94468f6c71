"""Bodies of requests that take far more memory once decoded than their bytes."""

from __future__ import annotations

import json
from collections.abc import Callable

__all__ = ["BOMBS", "JSON", "PROTOBUF", "varint", "within"]

PROTOBUF, JSON = "application/x-protobuf", "application/json"


def varint(number: int) -> bytes:
    """Encode a number as protobuf does."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def within(tags: bytes, content: bytes) -> bytes:
    """Wrap content in fields with these tags, the outermost first."""
    for tag in reversed(tags):
        content = bytes([tag]) + varint(len(content)) + content
    return content


def _repeated(tags: bytes, piece: bytes) -> Callable[[int], bytes]:
    return lambda size: within(tags, piece * (size // len(piece)))


def _enclosed(start: str, piece: str, end: str) -> Callable[[int], bytes]:
    return lambda size: (start + ",".join([piece] * (size // (len(piece) + 1))) + end).encode()


_SPAN_IDS = within(b"\x0a", bytes([1]) * 16) + within(b"\x12", bytes([2]) * 8)
_IN_SPAN = b"\x0a\x12\x12"
_J_SPANS, _J_END = '{"resourceSpans":[{"scopeSpans":[{"spans":[', "]}]}]}"
_J_VALUES = (
    '{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"k","value":{"arrayValue":{"values":['
)
BOMBS: dict[str, tuple[str, str, Callable[[int], bytes]]] = {
    "empty resources": ("traces", PROTOBUF, _repeated(b"", b"\x0a\x00")),
    "empty scopes": ("traces", PROTOBUF, _repeated(b"\x0a", b"\x12\x00")),
    "empty spans": ("traces", PROTOBUF, _repeated(b"\x0a\x12", b"\x12\x00")),
    "spans with ids": ("traces", PROTOBUF, _repeated(b"\x0a\x12", within(b"\x12", _SPAN_IDS))),
    "attributes": ("traces", PROTOBUF, _repeated(_IN_SPAN, b"\x4a\x00")),
    "attributes, one letter": ("traces", PROTOBUF, _repeated(_IN_SPAN, b"\x4a\x07\x0a\x01a\x12\x02\x18\x01")),
    "resource attributes": ("traces", PROTOBUF, _repeated(b"\x0a\x0a", b"\x0a\x00")),
    "values of arrays": ("traces", PROTOBUF, _repeated(_IN_SPAN + b"\x4a\x12\x2a", b"\x0a\x00")),
    "values of maps": ("traces", PROTOBUF, _repeated(_IN_SPAN + b"\x4a\x12\x32", b"\x0a\x00")),
    "events": ("traces", PROTOBUF, _repeated(_IN_SPAN, b"\x5a\x00")),
    "links": ("traces", PROTOBUF, _repeated(_IN_SPAN, b"\x6a\x00")),
    "unknown fields": ("traces", PROTOBUF, _repeated(_IN_SPAN, b"\xfa\x7f\x00")),
    "nested values": ("traces", PROTOBUF, _repeated(_IN_SPAN, within(b"\x4a\x12" + b"\x2a\x0a" * 40, b""))),
    "log records": ("logs", PROTOBUF, _repeated(b"\x0a\x12", b"\x12\x00")),
    "log bodies": ("logs", PROTOBUF, _repeated(b"\x0a\x12\x12\x2a\x32", b"\x0a\x00")),
    "long text": ("traces", PROTOBUF, _repeated(_IN_SPAN + b"\x4a\x12\x0a", b"a")),
    "zeros": ("traces", PROTOBUF, lambda size: bytes(size)),
    "JSON objects": ("traces", JSON, _enclosed('{"resourceSpans":[', "{}", "]}")),
    "JSON spans": ("traces", JSON, _enclosed(_J_SPANS, "{}", _J_END)),
    "JSON spans with ids": (
        "traces",
        JSON,
        _enclosed(_J_SPANS, f'{{"traceId":"{"ab" * 16}","spanId":"{"cd" * 8}"}}', _J_END),
    ),
    "JSON values": ("traces", JSON, _enclosed(_J_VALUES, "{}", "]}}}]}]}]}]}")),
    "JSON arrays": ("traces", JSON, _enclosed('{"a":[', "[]", "]}")),
    "JSON numbers": ("traces", JSON, _enclosed('{"a":[', "12345", "]}")),
    "JSON keys": ("traces", JSON, lambda size: json.dumps({f"{n:x}": 0 for n in range(size // 12)}).encode()),
    "JSON escapes": ("traces", JSON, lambda size: b'{"a":"' + b"\\u00e9" * (size // 6) + b'"}'),
    "JSON wide text": ("traces", JSON, lambda size: b'{"a":"' + "\U0001f600".encode() * (size // 4) + b'"}'),
    "JSON brackets": ("traces", JSON, lambda size: b"[" * size),
    "JSON logs": ("logs", JSON, _enclosed('{"resourceLogs":[{"scopeLogs":[{"logRecords":[', "{}", _J_END)),
}
"""Signal, content type, and a function that makes a body of about so many bytes, by name."""
