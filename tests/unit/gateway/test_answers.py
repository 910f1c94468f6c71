"""What a sender is told, in the forms of OTLP."""

from __future__ import annotations

import json

import pytest
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_evals_gateway._internal.receiver.answers import (
    JSON,
    PROTOBUF,
    ExportAnswer,
    grpc_code,
    grpc_trailers,
    http_body,
    http_headers,
    read_partial_success,
)


def test_a_full_success_leaves_partial_success_out() -> None:
    assert http_body(ExportAnswer(), "traces", PROTOBUF) == b""
    assert json.loads(http_body(ExportAnswer(), "traces", JSON)) == {}


def test_a_partial_success_tells_how_many_and_why() -> None:
    answer = ExportAnswer(rejected=3, message="3 with no valid span id")
    made = ExportTraceServiceResponse.FromString(http_body(answer, "traces", PROTOBUF)).partial_success
    assert (made.rejected_spans, made.error_message) == (3, "3 with no valid span id")
    logs = ExportLogsServiceResponse.FromString(http_body(answer, "logs", PROTOBUF)).partial_success
    assert logs.rejected_log_records == 3
    assert json.loads(http_body(answer, "logs", JSON)) == {
        "partialSuccess": {"rejectedLogRecords": "3", "errorMessage": "3 with no valid span id"}
    }
    for kind in (PROTOBUF, JSON):
        assert read_partial_success(http_body(answer, "traces", kind), "traces", kind) == answer
    assert read_partial_success(b"\xff\xff", "traces") == ExportAnswer()


@pytest.mark.parametrize(
    ("status", "code", "again"),
    [
        (400, StatusCode.INVALID_ARGUMENT, None),
        (401, StatusCode.UNAUTHENTICATED, None),
        (413, StatusCode.RESOURCE_EXHAUSTED, None),
        (415, StatusCode.INVALID_ARGUMENT, None),
        (429, StatusCode.RESOURCE_EXHAUSTED, 1.5),
        (503, StatusCode.UNAVAILABLE, 2.0),
        (500, StatusCode.INTERNAL, None),
    ],
)
def test_an_error_says_whether_to_send_again(status: int, code: StatusCode, again: float | None) -> None:
    """Over HTTP by Retry-After in whole seconds, over gRPC by RetryInfo, which only these have."""
    answer = ExportAnswer(status, "why", retry_after=again)
    assert grpc_code(answer) is code
    ((name, details),) = grpc_trailers(answer)
    told = Status.FromString(details)
    assert (name, told.code, told.message) == ("grpc-status-details-bin", code.value[0], "why")
    body = Status.FromString(http_body(answer, "traces", PROTOBUF))
    assert (body.code, body.message) == (code.value[0], "why")
    as_json = json.loads(http_body(answer, "traces", JSON))
    assert (as_json["code"], as_json["message"]) == (code.value[0], "why")
    if again is None:
        assert not told.details
        assert "Retry-After" not in http_headers(answer)
    else:
        info = RetryInfo()
        assert told.details[0].Unpack(info)
        assert info.retry_delay.seconds + info.retry_delay.nanos / 1e9 == again
        assert http_headers(answer)["Retry-After"] == "2"
