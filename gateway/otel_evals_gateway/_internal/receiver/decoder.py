"""Decodes the body of a request into an OTLP message, within limits."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, Protocol

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals_gateway._internal.receiver.answers import JSON, PROTOBUF, ExportAnswer, RefusedError

Signal = Literal["traces", "logs", "metrics"]


class Reservation(Protocol):
    """Memory that is reserved for a request."""

    def resize(self, size: int) -> None:
        """Change the size; RefusedError if that is too much."""


MESSAGES: dict[str, Any] = {
    "traces": ExportTraceServiceRequest,
    "logs": ExportLogsServiceRequest,
    "metrics": ExportMetricsServiceRequest,
}
FIELDS = {
    "traces": ("resource_spans", "scope_spans", "spans"),
    "logs": ("resource_logs", "scope_logs", "log_records"),
}
"""Names of the nested fields of a request."""
_IDS = ("traceId", "spanId", "parentSpanId", "trace_id", "span_id", "parent_span_id")
_GZIP = 31
"""zlib's window bits for a gzip header."""
_MOST_MEMBERS = 100
_PIECE = 1024 * 1024
"""Bytes that are inflated or searched in one call, which keeps the interpreter's lock."""
_PROTOBUF_BYTES = {
    "traces": {b"\x12": 176, b"\x0a": 80, b"\x5a\x6a": 300, b"\x1a\x22\x4a": 56},
    "logs": {b"\x12": 176, b"\x0a": 80, b"\x1a\x32": 56},
}
"""Bytes of memory for one empty element, measured with upb, by the tags of its repeated field; for events and
links with their selected form."""
_JSON_BYTES = {b"{": 400, b"[": 100, b",": 60, b'"': 55}
_WIDE = 9
"""Bytes for a byte of JSON: itself, its text and a copy, with four bytes per letter if one is not ASCII."""
_LEAST_BYTES = {PROTOBUF: 16, JSON: 24}
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
    reservation: Reservation | None = None
    """The memory reserved for it; None for requests that do not come from a receiver."""

    def reserve(self, size: int) -> None:
        """Reserve memory in total; RefusedError if that is too much."""
        if self.reservation is not None:
            self.reservation.resize(size)

    def forget_message(self) -> None:
        """Free the decoded body of a request that waits."""
        self.message = None
        self.reserve(len(self.plain) + len(self.body))


def decode(request: ExportRequest, most: int) -> ExportRequest:
    """Fill in the message of a request, whose uncompressed body may have `most` bytes, or refuse it.

    Reserves memory before it is used, up to the selection of the items.
    """
    size, pieces, reserved = DecodedSize(request), [], 0
    for piece in inflate(request.body, request.encoding, most):
        pieces.append(piece)
        reserved = len(request.body) + size.add(piece)
        request.reserve(reserved)
    data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
    pieces.clear()
    decode_plain(request, data)
    request.reserve(reserved + selected_size(request))
    return request


def decode_plain(request: ExportRequest, data: bytes) -> ExportRequest:
    """Fill in the message of a request from its uncompressed body; metrics are forwarded undecoded."""
    kind = MESSAGES[request.signal]
    if request.signal == "metrics":
        request.plain = data
    elif request.content_type == PROTOBUF:
        try:
            request.message, request.plain = kind.FromString(data), data
        except DecodeError:
            problem = f"the body is not an OTLP protobuf request for {request.signal}"
            raise RefusedError(ExportAnswer(400, problem)) from None
        for count in _counts(request):
            _refuse_empty(count, len(data), _LEAST_BYTES[PROTOBUF])
    else:
        _refuse_empty(_objects_in(data), len(data), _LEAST_BYTES_PER_OBJECT)
        request.message = _from_json(data, kind, request.signal)
        request.plain = request.message.SerializeToString()
    return request


class DecodedSize:
    """An upper bound of the bytes that decoding a body takes, from its uncompressed pieces.

    An empty element has two bytes and takes up to 90 times as many once decoded. Its tag is one byte, or two
    if it is written longer than necessary, so the occurrences of that byte bound the number of elements.
    """

    def __init__(self, request: ExportRequest) -> None:
        self._json = request.content_type == JSON and request.signal != "metrics"
        if self._json:
            self._weights = _JSON_BYTES
        else:
            weights = _PROTOBUF_BYTES.get(request.signal, {})
            self._weights = {tags + bytes(tag | 0x80 for tag in tags): n for tags, n in weights.items()}
        self._copies = 2
        self._length = self._elements = 0

    def add(self, data: bytes) -> int:
        """Return the size with the next piece of the body."""
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            for tags, weight in self._weights.items():
                self._elements += weight * (len(piece) - len(piece.translate(None, tags)))
            if self._json and not (piece.isascii() and b"\\u" not in piece and piece[-1:] != b"\\"):
                self._copies = _WIDE
        self._length += len(data)
        return self._copies * self._length + self._elements


def selected_size(request: ExportRequest) -> int:
    """Return an upper bound of the bytes that the selected items of a decoded request take."""
    if request.signal == "metrics":
        return 0
    *_, items = _counts(request)
    return _ITEM_BYTES * items


def _counts(request: ExportRequest) -> Iterator[int]:
    """Yield how many resources, scopes, and spans or log records a decoded request has."""
    blocks, scopes, items = FIELDS[request.signal]
    found = getattr(request.message, blocks)
    yield len(found)
    yield sum(len(getattr(block, scopes)) for block in found)
    yield sum(len(getattr(scoped, items)) for block in found for scoped in getattr(block, scopes))


def _objects_in(data: bytes) -> int:
    """Count the objects in JSON. Braces inside strings are excluded only if there are many braces."""
    count = data.count(b"{")
    is_dense = count > _FEW and count * _LEAST_BYTES_PER_OBJECT > len(data)
    return _TEXT.sub(b"", data).count(b"{") if is_dense else count


def _refuse_empty(count: int, size: float, least: int) -> None:
    """Refuse a body with almost empty elements, which take far more time than their bytes suggest."""
    if count > _FEW and count * least > size:
        problem = f"the body has {count} elements in {size:.0f} bytes, so most are empty"
        raise RefusedError(ExportAnswer(400, problem))


def decompress(body: bytes, encoding: str, most: int) -> bytes:
    """Decompress a body; RefusedError if it is broken, of an unknown encoding, or too large."""
    return b"".join(inflate(body, encoding, most))


def inflate(body: bytes, encoding: str, most: int) -> Iterator[bytes]:
    """Yield the pieces of an uncompressed body; RefusedError as for `decompress`."""
    if encoding not in ("", "identity", "gzip", "deflate"):
        raise RefusedError(ExportAnswer(415, "Content-Encoding must be gzip, deflate or identity"))
    window = {"gzip": _GZIP, "deflate": zlib.MAX_WBITS}.get(encoding)
    left = most
    try:
        for piece in [body] if window is None else _inflated(body, window):
            left -= len(piece)
            if left < 0 and window is not None:
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
            return _json_object(json.loads(data), kind, len(data))
        except ParseError:
            text = json.dumps(json.loads(data), ensure_ascii=False)
            mended = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            if mended == text:
                raise
            # Half of a pair of surrogates, as JavaScript leaves it when it shortens a text.
            return _json_object(json.loads(mended), kind, len(data))
    except (ValueError, RecursionError, ParseError, TypeError, AttributeError):
        raise RefusedError(ExportAnswer(400, f"the body is not an OTLP/JSON request for {signal}")) from None


def _json_object(parsed: Any, kind: Any, size: int) -> Any:
    if not isinstance(parsed, dict):
        raise ValueError("not an object")
    return json_message(parsed, kind(), size)


def json_message(request: dict[str, Any], message: Any, size: float = inf) -> Any:
    """Fill a message from parsed OTLP/JSON, changing its ids in place; raise any error if it is not OTLP.

    RefusedError if most elements are empty, for JSON of `size` bytes.
    """
    _refuse_empty(_ids_to_base64(request), size, _LEAST_BYTES[JSON])
    try:
        return ParseDict(request, message, ignore_unknown_fields=True)
    except OverflowError as error:  # 1e999 for an integer
        raise ValueError(str(error)) from None


def _ids_to_base64(request: dict[str, Any]) -> int:
    """Convert ids, which are hex in OTLP/JSON and base64 in protobuf's own mapping to JSON.

    Returns the number of resources, scopes, and spans or log records.
    """
    count = 0
    for block in _items(request, "resourceSpans", "resource_spans"):
        count += 1
        for scoped in _items(block, "scopeSpans", "scope_spans"):
            spans = _items(scoped, "spans")
            count += 1 + len(spans)
            for span in spans:
                _convert(span)
                for link in _items(span, "links"):
                    _convert(link)
    for block in _items(request, "resourceLogs", "resource_logs"):
        count += 1
        for scoped in _items(block, "scopeLogs", "scope_logs"):
            logs = _items(scoped, "logRecords", "log_records")
            count += 1 + len(logs)
            for log in logs:
                _convert(log)
    return count


def _items(node: Any, *names: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for name in names:
        value = node.get(name) if isinstance(node, dict) else None
        found += [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
    return found


def _convert(node: dict[str, Any]) -> None:
    for name in _IDS:
        value = node.get(name)
        if isinstance(value, str) and value and not (len(value) in (12, 24) and value.endswith("=")):
            node[name] = base64.b64encode(bytes.fromhex(value)).decode("ascii")
