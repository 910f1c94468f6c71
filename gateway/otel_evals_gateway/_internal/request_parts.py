"""Parts of OTLP requests: what may be judged of one, and spans with their scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_evals.sdk.otlp import attribute_bytes, envelope, opened
from otel_evals_gateway._internal.receiver.decoder import ExportRequest
from otel_evals_gateway._internal.receiver.selection import Selection

__all__ = ["request_of", "with_attributes"]


def with_attributes(part: bytes, attributes: Mapping[str, Any]) -> bytes:
    """A request of one span with further attributes; what was there keeps its bytes.

    An attribute that the span has already is left as it is: keys must be unique.
    """
    if not attributes:
        return part
    around, beside, span = opened(part)
    known = {attribute.key for attribute in Span.FromString(span).attributes}
    for key, value in attributes.items():
        if key not in known:
            span += attribute_bytes(_key_value(key, value))
    return envelope(around, beside, span)


def _key_value(key: str, value: Any) -> bytes:
    made = KeyValue(key=key)
    if isinstance(value, float):
        made.value.double_value = value
    else:
        made.value.string_value = str(value)
    return bytes(made.SerializeToString())


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
