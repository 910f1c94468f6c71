"""Decodes the body of a request into an OTLP message, within limits."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals_gateway._internal.receiver.answers import JSON, PROTOBUF, ExportAnswer, RefusedError

Signal = Literal["traces", "logs", "metrics"]


MESSAGES: dict[str, Any] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
}
FIELDS = {
    "traces": ("resource_spans", "scope_spans", "spans"),
    "logs": ("resource_logs", "scope_logs", "log_records"),
}
"""Names of the nested fields of a request."""
_IDS = {"traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id"}
_NESTED = {"resourceSpans", "scopeSpans", "spans", "links", "resourceLogs", "scopeLogs", "logRecords"}
_NESTED |= {"resource_spans", "scope_spans", "resource_logs", "scope_logs", "log_records"}
"""Fields on the way to ids, in JSON."""
_GZIP = 31
"""zlib's window bits for a gzip header."""
_MOST_MEMBERS = 100
_PIECE = 1024 * 1024
"""Bytes that are inflated or searched in one call, which keeps the interpreter's lock."""
_PROTOBUF_BYTES = {
    "traces": {b"\x12\x92": 176, b"\x0a\x8a": 80, b"\x5a\x6a\xda\xea": 300, b"\x1a\x22\x4a\x9a\xa2\xca": 56},
    "logs": {b"\x12\x92": 176, b"\x0a\x8a": 80, b"\x1a\x32\x9a\xb2": 56},
}
"""Bytes of memory for one empty element, measured with upb, by the tags of its repeated field, short and
long; for events and links with their selected form."""
_JSON_BYTES = {b"{": 400, b"[": 100, b",": 60, b'"': 55}
_WIDE = 9
"""Bytes for a byte of JSON: itself, its text and a copy, with four bytes per letter if one is not ASCII."""
_LEAST_BYTES = 16
"""Mean bytes of a body per resource, scope, and span or log record. A span's ids alone have more."""
_LEAST_BYTES_PER_OBJECT = 12
"""Mean bytes of a body per JSON object; `{"intValue":1}` has 14."""
_FEW = 1_000
"""Number of elements that may have any size."""
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A JSON string. An unterminated one extends to the end, which keeps the search linear."""
_ITEM_BYTES = 1_000
"""Bytes of a selected span or log record, besides its content."""


@dataclass(slots=True, eq=False)
class ExportRequest:
    """One OTLP export request."""

    signal: Signal
    body: bytes
    """As received."""
    content_type: str = PROTOBUF
    encoding: str = ""
    """`Content-Encoding` of the body."""
    message: Any = None
    """The decoded body."""
    plain: bytes = b""
    """The body as uncompressed protobuf."""
    reserve: Callable[[int], object] = lambda size: None
    """Reserves memory in total; RefusedError if that is too much."""


def decode(request: ExportRequest, most: int) -> ExportRequest:
    """Fill in the message of a request, whose uncompressed body may have `most` bytes, or refuse it.

    Reserves memory before it is used, up to the selection of the items. Metrics are forwarded undecoded.
    """
    pieces, length = [], len(request.body)
    for piece in inflate(request.body, request.encoding, most):
        pieces.append(piece)
        length += 2 * len(piece)  # they are joined
        request.reserve(length)
    data = b"".join(pieces)
    # They would be in memory twice while the message is built.
    pieces.clear()
    if request.signal == "metrics":
        return request
    size = len(request.body) + decoded_size(request, data)
    request.reserve(size)
    kind = MESSAGES[request.signal]
    if request.content_type == JSON:
        _refuse_empty(_objects_in(data), len(data), _LEAST_BYTES_PER_OBJECT)
        request.message = _from_json(data, kind, request.signal)
        request.plain = request.message.SerializeToString()
    else:
        try:
            request.message, request.plain = kind.FromString(data), data
        except DecodeError:
            problem = f"the body is not OTLP protobuf of {request.signal} with at most 100 levels"
            raise RefusedError(ExportAnswer(400, problem)) from None
    counts = _counts(request)
    for count in counts:
        _refuse_empty(count, len(data), _LEAST_BYTES)
    request.reserve(size + _ITEM_BYTES * counts[-1])
    return request


def decoded_size(request: ExportRequest, data: bytes) -> int:
    """Return an upper bound of the bytes that decoding an uncompressed body takes.

    An empty element has two bytes and takes up to 90 times as many once decoded. Its tag is one byte, or two
    if it is written longer than necessary, so the occurrences of that byte bound the number of elements.
    """
    weights, copies = _PROTOBUF_BYTES[request.signal], 2
    if request.content_type == JSON:
        weights = _JSON_BYTES
        copies = 2 if data.isascii() and b"\\u" not in data else _WIDE
    elements = 0
    for at in range(0, len(data), _PIECE):
        piece = data[at : at + _PIECE]
        for tags, weight in weights.items():
            elements += weight * (len(piece) - len(piece.translate(None, tags)))
    return copies * len(data) + elements


def _counts(request: ExportRequest) -> tuple[int, int, int]:
    """Return how many resources, scopes, and spans or log records a decoded request has."""
    blocks, scopes, items = FIELDS[request.signal]
    found = getattr(request.message, blocks)
    scoped = [each for block in found for each in getattr(block, scopes)]
    return len(found), len(scoped), sum(len(getattr(each, items)) for each in scoped)


def _objects_in(data: bytes) -> int:
    """Count the objects in JSON. Braces inside strings are excluded only if there are many braces."""
    count = data.count(b"{")
    # The exact count costs a search, so ordinary bodies do without.
    is_dense = count > _FEW and count * _LEAST_BYTES_PER_OBJECT > len(data)
    return _TEXT.sub(b"", data).count(b"{") if is_dense else count


def _refuse_empty(count: int, size: float, least: int) -> None:
    """Refuse a body with almost empty elements, which take far more time than their bytes suggest."""
    if count > _FEW and count * least > size:
        problem = f"the body has {count} elements in {size:.0f} bytes, so most are empty"
        raise RefusedError(ExportAnswer(400, problem))


def inflate(body: bytes, encoding: str, most: int) -> Iterator[bytes]:
    """Yield the pieces of a decompressed body; RefusedError if it is broken, or has over `most` bytes."""
    if encoding not in ("", "identity", "gzip", "deflate"):
        raise RefusedError(ExportAnswer(415, "Content-Encoding must be gzip, deflate or identity"))
    window = {"gzip": _GZIP, "deflate": zlib.MAX_WBITS}.get(encoding)
    if window is None:
        yield body
        return
    left = most
    try:
        for piece in _inflated(body, window):
            left -= len(piece)
            if left < 0:
                problem = f"the body has more than {most} bytes after decompression"
                raise RefusedError(ExportAnswer(413, problem))
            yield piece
    except zlib.error:
        raise RefusedError(ExportAnswer(400, f"the body is not valid {encoding}")) from None


def _inflated(body: bytes, window: int) -> Iterator[bytes]:
    members = 0
    while body:  # a gzip body may have several members
        members += 1
        if members > _MOST_MEMBERS:  # each copies the rest of the body
            raise zlib.error("too many members")
        inflater = zlib.decompressobj(window)
        for at in range(0, len(body), _PIECE):
            rest = body[at : at + _PIECE]
            while rest and not inflater.eof:
                yield inflater.decompress(rest, _PIECE)
                rest = inflater.unconsumed_tail
            if inflater.eof:
                body = inflater.unused_data + body[at + _PIECE :]
                break
        else:
            raise zlib.error("ends early")


def _from_json(data: bytes, kind: Any, signal: str) -> Any:
    try:
        try:
            return json_message(json.loads(data), kind())
        except ParseError:
            # Parsed again: the first attempt has changed ids in place.
            text = json.dumps(json.loads(data), ensure_ascii=False)
            mended = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            if mended == text:
                raise
            # Half of a pair of surrogates, as JavaScript leaves it when it shortens a text.
            return json_message(json.loads(mended), kind())
    except (ValueError, OverflowError, RecursionError, ParseError, TypeError, AttributeError):
        raise RefusedError(
            ExportAnswer(400, f"the body is not OTLP/JSON of {signal} with at most 100 levels")
        ) from None


def json_message(request: Any, message: Any) -> Any:
    """Fill a message from parsed OTLP/JSON, changing its ids in place; raise any error if it is not OTLP."""
    if not isinstance(request, dict):
        raise ValueError("not an object")
    _ids_to_base64(request)
    return ParseDict(request, message, ignore_unknown_fields=True)


def _ids_to_base64(node: dict[str, Any]) -> None:
    """Convert ids, which are hex in OTLP/JSON and base64 in protobuf's own mapping to JSON."""
    for name in _IDS & node.keys():
        value = node[name]
        if isinstance(value, str) and not (len(value) in (12, 24) and value.endswith("=")):
            node[name] = base64.b64encode(bytes.fromhex(value)).decode("ascii")
    for name in _NESTED & node.keys():
        if isinstance(node[name], list):
            for item in node[name]:
                if isinstance(item, dict):
                    _ids_to_base64(item)
