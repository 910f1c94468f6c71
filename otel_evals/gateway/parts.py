"""Parts of OTLP requests: what may be judged of one, for the journal."""

from __future__ import annotations

from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals.intake.receiver.decoding import ExportRequest
from otel_evals.intake.receiver.selection import Selection

__all__ = ["request_of"]


def request_of(request: ExportRequest, selection: Selection) -> bytes:
    """A request with nothing but the selected spans or log records, as protobuf."""
    if len(selection.places) == selection.seen:
        return request.plain
    traces = request.signal == "traces"
    part: Any = ExportTraceServiceRequest() if traces else ExportLogsServiceRequest()
    blocks, scopes, records = (
        ("resource_spans", "scope_spans", "spans")
        if traces
        else ("resource_logs", "scope_logs", "log_records")
    )
    at: tuple[int, int] = (-1, -1)
    scoped: Any = None
    block: Any = None
    for r, s, i in selection.places:
        from_block = getattr(request.message, blocks)[r]
        from_scope = getattr(from_block, scopes)[s]
        if r != at[0]:
            block = getattr(part, blocks).add()
            block.resource.CopyFrom(from_block.resource)
        if (r, s) != at:
            scoped = getattr(block, scopes).add()
            scoped.scope.CopyFrom(from_scope.scope)
            at = r, s
        getattr(scoped, records).append(getattr(from_scope, records)[i])
    return bytes(part.SerializeToString())
