"""Decodes the body of a request into an OTLP message, within limits."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass
from typing import Any, Literal

from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals_gateway._internal.receiver.answers import PROTOBUF, ExportAnswer, RefusedError

Signal = Literal["traces", "logs", "metrics"]

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
_SPAN, _BLOCK, _EVENT, _KEY_VALUE = 176, 64, 96, 56
_DECODED_BYTES: dict[str, dict[int, int]] = {
    "traces": {
        0x12: _SPAN,
        0x0A: _BLOCK,
        0x5A: _EVENT,
        0x6A: _EVENT,
        **dict.fromkeys((0x1A, 0x22, 0x4A), _KEY_VALUE),
    },
    "logs": {0x12: _SPAN, 0x0A: _BLOCK, 0x1A: _KEY_VALUE, 0x32: _KEY_VALUE},
}
"""Bytes of memory for one empty element, measured with upb, by the tag of its repeated field."""
_JSON_BYTES = {b"{": 400, b"[": 100, b",": 60, b'"': 30}


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
    reservation: Any = None
    """The memory reserved for it; None for requests that do not come from a receiver."""

    def forget_message(self) -> None:
        """Free the decoded body of a request that waits."""
        self.message = None
        if self.reservation is not None:
            self.reservation.resize(len(self.plain) + len(self.body))


def decode(request: ExportRequest, most: int) -> ExportRequest:
    """Fill in the message of a request, whose uncompressed body may have `most` bytes, or refuse it."""
    return decode_plain(request, decompress(request.body, request.encoding, most))


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
    else:
        request.message = _from_json(data, kind(), request.signal)
        request.plain = request.message.SerializeToString()
    return request


def decoded_size(request: ExportRequest, data: bytes) -> int:
    """Return an upper bound of the bytes that decoding an uncompressed body takes.

    An empty element has two bytes and takes up to 90 times as many once decoded. Its tag is one byte, or two
    if it is written longer than necessary, so the occurrences of that byte bound the number of elements.
    """
    if request.content_type == PROTOBUF:
        weights = _DECODED_BYTES.get(request.signal, {})
        elements = sum(n * (data.count(tag) + data.count(tag | 0x80)) for tag, n in weights.items())
    else:
        elements = sum(n * data.count(char) for char, n in _JSON_BYTES.items())
    return 2 * len(data) + elements


def decompress(body: bytes, encoding: str, most: int) -> bytes:
    """Decompress a body; RefusedError if it is broken, of an unknown encoding, or too large."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "deflate"):
        raise RefusedError(ExportAnswer(415, "Content-Encoding must be gzip, deflate or identity"))
    try:
        return _inflated(body, _GZIP if encoding == "gzip" else zlib.MAX_WBITS, most)
    except zlib.error:
        raise RefusedError(ExportAnswer(400, f"the body is not valid {encoding}")) from None


def _inflated(body: bytes, window: int, most: int) -> bytes:
    parts: list[bytes] = []
    left = most
    while body:  # a gzip body may have several members
        inflater = zlib.decompressobj(window)
        part = inflater.decompress(body, left + 1)
        left -= len(part)
        if left < 0:
            problem = f"the body has more than {most} bytes after decompression"
            raise RefusedError(ExportAnswer(413, problem))
        if not inflater.eof:
            raise zlib.error("ends early")
        parts.append(part)
        if len(parts) > _MOST_MEMBERS:  # each copies the rest of the body
            raise zlib.error("too many members")
        body = inflater.unused_data
    return b"".join(parts)


def _from_json(data: bytes, message: Any, signal: str) -> Any:
    try:
        parsed = json.loads(data)
        if not isinstance(parsed, dict):
            raise ValueError("not an object")
        return json_message(parsed, message)
    except (ValueError, RecursionError, ParseError, TypeError, AttributeError):
        raise RefusedError(ExportAnswer(400, f"the body is not an OTLP/JSON request for {signal}")) from None


def json_message(request: dict[str, Any], message: Any) -> Any:
    """Fill a message from parsed OTLP/JSON, changing its ids in place; raise any error if it is not OTLP."""
    _ids_to_base64(request)
    try:
        return ParseDict(request, message, ignore_unknown_fields=True)
    except OverflowError as error:  # 1e999 for an integer
        raise ValueError(str(error)) from None


def _ids_to_base64(request: dict[str, Any]) -> None:
    """Convert ids, which are hex in OTLP/JSON and base64 in protobuf's own mapping to JSON."""
    for block in _items(request, "resourceSpans", "resource_spans"):
        for scoped in _items(block, "scopeSpans", "scope_spans"):
            for span in _items(scoped, "spans"):
                _convert(span)
                for link in _items(span, "links"):
                    _convert(link)
    for block in _items(request, "resourceLogs", "resource_logs"):
        for scoped in _items(block, "scopeLogs", "scope_logs"):
            for log in _items(scoped, "logRecords", "log_records"):
                _convert(log)


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
