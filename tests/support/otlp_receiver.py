"""An OTLP/HTTP receiver on loopback that keeps what it is sent, decoded: spans, log records and metrics."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # ships no types
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_evals.model import SpanEvent, SpanRecord
from tests.support.waits import SECONDS

_STATUS = ("UNSET", "OK", "ERROR")
_HAS_REMOTE, _IS_REMOTE = 0x100, 0x200


@dataclass(frozen=True, kw_only=True)
class ReceivedLog:
    """A log record; ids are hex, and empty where it stands in no span."""

    trace_id: str
    span_id: str
    event_name: str
    attributes: Mapping[str, Any]
    trace_flags: int
    resource: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class ReceivedMetric:
    """One data point; `value` is the number of a sum or gauge, or the sum of a histogram."""

    name: str
    attributes: Mapping[str, Any]
    value: float
    count: int
    resource: Mapping[str, Any]


class OtlpReceiver:
    """Listens while the `with` block lasts. Set `fail_with` to an HTTP status to refuse everything."""

    def __init__(self, port: int = 0) -> None:
        self.fail_with: int | None = None
        self.requests: list[tuple[str, int]] = []
        """Path and answered status, of every request."""
        self.spans: list[SpanRecord] = []
        """Those received so far, in order of arrival, as are log records and data points."""
        self.logs: list[ReceivedLog] = []
        self.metrics: list[ReceivedMetric] = []
        self._changed = threading.Condition()
        self._server = _Server(("127.0.0.1", port), _Handler)
        self._server.receiver = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def endpoint(self) -> str:
        """Base URL: the value of OTEL_EXPORTER_OTLP_ENDPOINT."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def wait(self, ready: Callable[[OtlpReceiver], object], timeout: float = SECONDS) -> None:
        """Block until `ready(receiver)` is true.

        Raises:
            TimeoutError: it was not within `timeout` seconds.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: ready(self), timeout):
                raise TimeoutError(
                    f"after {timeout} s: {len(self.spans)} spans {[s.name for s in self.spans][-20:]}, "
                    f"{len(self.logs)} logs, {len(self.metrics)} data points; last {self.requests[-5:]}"
                )

    def wait_for_spans(self, count: int) -> list[SpanRecord]:
        """Block until that many spans are here, and return all of them."""
        self.wait(lambda r: len(r.spans) >= count)
        return list(self.spans)

    def wait_for_logs(self, count: int, timeout: float = SECONDS) -> list[ReceivedLog]:
        """Block until that many log records are here, and return all of them."""
        self.wait(lambda r: len(r.logs) >= count, timeout)
        return list(self.logs)

    def wait_for_metric(self, name: str) -> list[ReceivedMetric]:
        """Block until a metric of that name is here, and return all its data points."""
        self.wait(lambda r: any(m.name == name for m in r.metrics))
        return [m for m in self.metrics if m.name == name]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def receive(self, path: str, body: bytes) -> tuple[int, bytes]:
        """Keep what was posted to a path; returns the HTTP status and body of the answer."""
        status, answer = self._decode(path, body) if self.fail_with is None else (self.fail_with, b"")
        with self._changed:
            self.requests.append((path, status))
            self._changed.notify_all()
        return status, answer

    def _decode(self, path: str, body: bytes) -> tuple[int, bytes]:
        for signal, request, response, read, kept in (
            ("traces", ExportTraceServiceRequest, ExportTraceServiceResponse, _spans, self.spans),
            ("logs", ExportLogsServiceRequest, ExportLogsServiceResponse, _logs, self.logs),
            ("metrics", ExportMetricsServiceRequest, ExportMetricsServiceResponse, _metrics, self.metrics),
        ):
            if path.endswith(f"/v1/{signal}"):  # some have a prefix
                try:
                    kept.extend(read(request.FromString(body)))
                except DecodeError:
                    return 400, b""
                return 200, response().SerializeToString()
        return 404, b""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    receiver: OtlpReceiver


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for an acknowledgement
    timeout = 5
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        status, answer = self.server.receiver.receive(self.path, body)
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class named it)
        pass


def _spans(request: ExportTraceServiceRequest) -> Iterator[SpanRecord]:
    for group in request.resource_spans:
        resource = _attributes(group.resource.attributes)
        for scoped in group.scope_spans:
            for span in scoped.spans:
                yield SpanRecord(
                    trace_id=span.trace_id.hex(),
                    span_id=span.span_id.hex(),
                    parent_span_id=span.parent_span_id.hex() or None,
                    name=span.name,
                    kind=Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
                    start_time=span.start_time_unix_nano,
                    end_time=span.end_time_unix_nano or None,
                    attributes=_attributes(span.attributes),
                    events=tuple(
                        SpanEvent(name=e.name, time=e.time_unix_nano, attributes=_attributes(e.attributes))
                        for e in span.events
                    ),
                    status=_STATUS[span.status.code],  # type: ignore[arg-type]  # one of the three
                    status_message=span.status.message,
                    scope_name=scoped.scope.name,
                    scope_version=scoped.scope.version,
                    resource=resource,
                    # Python's exporter leaves the W3C flags out; what is exported was sampled.
                    trace_flags=span.flags & 0xFF or 1,
                    trace_state=span.trace_state,
                    parent_is_remote=bool(span.flags & _HAS_REMOTE and span.flags & _IS_REMOTE),
                    dropped_attributes=span.dropped_attributes_count,
                )


def _logs(request: ExportLogsServiceRequest) -> Iterator[ReceivedLog]:
    for group in request.resource_logs:
        resource = _attributes(group.resource.attributes)
        for scoped in group.scope_logs:
            for record in scoped.log_records:
                yield ReceivedLog(
                    trace_id=record.trace_id.hex(),
                    span_id=record.span_id.hex(),
                    event_name=record.event_name,
                    attributes=_attributes(record.attributes),
                    trace_flags=record.flags & 0xFF,
                    resource=resource,
                )


def _metrics(request: ExportMetricsServiceRequest) -> Iterator[ReceivedMetric]:
    for group in request.resource_metrics:
        resource = _attributes(group.resource.attributes)
        for scoped in group.scope_metrics:
            for metric in scoped.metrics:
                for point in getattr(metric, metric.WhichOneof("data")).data_points:
                    number = None if hasattr(point, "count") else point.WhichOneof("value")
                    yield ReceivedMetric(
                        name=metric.name,
                        attributes=_attributes(point.attributes),
                        value=float(getattr(point, number) if number else getattr(point, "sum", 0.0)),
                        count=getattr(point, "count", 1),
                        resource=resource,
                    )


def _attributes(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: AnyValue) -> Any:
    match value.WhichOneof("value"):
        case None:
            return None
        case "array_value":
            return [_value(item) for item in value.array_value.values]
        case "kvlist_value":
            return _attributes(value.kvlist_value.values)
        case kind:
            return getattr(value, kind)
