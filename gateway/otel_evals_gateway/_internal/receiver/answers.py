"""Answers to export requests over HTTP and gRPC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToJson, Parse
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

_RESPONSES: dict[str, tuple[Any, str]] = {
    "traces": (ExportTraceServiceResponse, "rejected_spans"),
    "logs": (ExportLogsServiceResponse, "rejected_log_records"),
    "metrics": (ExportMetricsServiceResponse, "rejected_data_points"),
}
_CODES = {
    200: StatusCode.OK,
    400: StatusCode.INVALID_ARGUMENT,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.UNIMPLEMENTED,
    408: StatusCode.DEADLINE_EXCEEDED,
    413: StatusCode.RESOURCE_EXHAUSTED,  # without RetryInfo: senders must not repeat it
    415: StatusCode.INVALID_ARGUMENT,
    429: StatusCode.RESOURCE_EXHAUSTED,
    502: StatusCode.UNAVAILABLE,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.UNAVAILABLE,
}


@dataclass(frozen=True, slots=True)
class ExportAnswer:
    """The answer to one export request."""

    status: int = 200
    """HTTP status; 429, 502, 503 and 504 ask the sender to send again."""
    message: str = ""
    """The reason for a refusal, for people. Never content of the request."""
    rejected: int = 0
    """Rejected spans or log records of an accepted request."""
    retry_after: float | None = None
    """Seconds after which to send again."""

    @property
    def ok(self) -> bool:
        return self.status == 200


class RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(self, answer: ExportAnswer) -> None:
        super().__init__(answer.message)
        self.answer = answer


def partial_success(answer: ExportAnswer, signal: str) -> Any:
    """Return the OTLP response message of an answer with status 200."""
    # An accepted request without a remark leaves the field unset, as OTLP asks.
    response, field = _RESPONSES[signal]
    made = response()
    if answer.rejected or answer.message:
        setattr(made.partial_success, field, answer.rejected)
        made.partial_success.error_message = answer.message
    return made


def read_partial_success(data: bytes, signal: str, content_type: str = PROTOBUF) -> ExportAnswer:
    """Return the answer in a response with status 200; an unreadable one is a success."""
    kind, field = _RESPONSES[signal]
    try:
        is_json = content_type == JSON
        read = Parse(data, kind(), ignore_unknown_fields=True) if is_json else kind.FromString(data)
    except Exception:
        return ExportAnswer()
    partial = read.partial_success
    return ExportAnswer(rejected=getattr(partial, field), message=partial.error_message)


def http_body(answer: ExportAnswer, signal: str, content_type: str) -> bytes:
    """Return the body of an HTTP response, in the format of the request."""
    message = partial_success(answer, signal) if answer.ok else _status(answer)
    return MessageToJson(message).encode() if content_type == JSON else bytes(message.SerializeToString())


def http_headers(answer: ExportAnswer) -> dict[str, str]:
    """Return the headers of an HTTP response, besides its content type."""
    headers = {}
    if answer.retry_after is not None:
        # HTTP has whole seconds only, and 0 would mean at once.
        headers["Retry-After"] = str(max(1, ceil(answer.retry_after)))
    if answer.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if answer.status == 405:
        headers["Allow"] = "POST"
    return headers


def grpc_code(answer: ExportAnswer) -> StatusCode:
    """Return the gRPC status code of an answer."""
    return _CODES.get(answer.status, StatusCode.INTERNAL)


def grpc_trailers(answer: ExportAnswer) -> tuple[tuple[str, bytes], ...]:
    """Return the trailing metadata of an answer: RetryInfo, if the sender is to send again."""
    return (("grpc-status-details-bin", _status(answer).SerializeToString()),)


def _status(answer: ExportAnswer) -> Status:
    status = Status(code=grpc_code(answer).value[0], message=answer.message)
    if answer.retry_after is not None:
        delay = Duration()
        delay.FromTimedelta(timedelta(seconds=answer.retry_after))
        status.details.add().Pack(RetryInfo(retry_delay=delay))
    return status
