"""Fresh ids and times for recorded items, with what ties them together kept."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from otel_evals_gateway._internal.replay.recording import Recorded

__all__ = ["Renewal"]

_LATEST = 2**64 - 1


class Renewal:
    """Gives every id of a recording another one, the same wherever the id stands.

    Ids are keyed hashes of the recorded ones (BLAKE2b, RFC 7693), so parents, links and log records find
    their spans in whatever order and file they come, and nothing needs to be remembered.

    Args:
        key: makes the ids; every replay has its own.
    """

    def __init__(self, key: bytes | None = None) -> None:
        self._key = secrets.token_bytes(32) if key is None else key

    def request(self, items: Iterable[tuple[Recorded, int]]) -> bytes:
        """An export request of items of one signal, each with the nanoseconds by which its times move."""
        blocks: dict[bytes, dict[bytes, list[Any]]] = {}
        signal = "traces"
        for item, shift in items:
            signal = item.signal
            renewed = self._span(item, shift) if signal == "traces" else self._log(item, shift)
            blocks.setdefault(item.resource, {}).setdefault(item.scope, []).append(renewed)
        return bytes(_spans(blocks) if signal == "traces" else _logs(blocks))

    def trace_id(self, old: bytes) -> bytes:
        """The fresh id of a trace."""
        return self._hash(old, 16) if any(old) else old

    def span_id(self, trace: bytes, old: bytes) -> bytes:
        """The fresh id of a span.

        Args:
            trace: the recorded id of its trace.
            old: its recorded id.
        """
        return self._hash(trace + old, 8) if any(old) else old

    def _hash(self, data: bytes, size: int) -> bytes:
        return blake2b(data, digest_size=size, key=self._key).digest()

    def _span(self, item: Recorded, shift: int) -> Any:
        span = Span.FromString(item.data)
        span.parent_span_id = self.span_id(span.trace_id, span.parent_span_id)
        self._place(span)
        for link in span.links:
            self._place(link)
        for name in ("start_time_unix_nano", "end_time_unix_nano"):
            _move(span, name, shift)
        for event in span.events:
            _move(event, "time_unix_nano", shift)
        return span

    def _log(self, item: Recorded, shift: int) -> Any:
        log = LogRecord.FromString(item.data)
        self._place(log)
        for name in ("time_unix_nano", "observed_time_unix_nano"):
            _move(log, name, shift)
        return log

    def _place(self, message: Any) -> None:
        message.span_id = self.span_id(message.trace_id, message.span_id)
        message.trace_id = self.trace_id(message.trace_id)


def _move(message: Any, name: str, shift: int) -> None:
    time = getattr(message, name)
    if time:
        setattr(message, name, min(max(time + shift, 1), _LATEST))


def _spans(blocks: dict[bytes, dict[bytes, list[Any]]]) -> bytes:
    request = ExportTraceServiceRequest()
    for resource, scopes in blocks.items():
        block = request.resource_spans.add()
        block.CopyFrom(ResourceSpans.FromString(resource))
        for scope, spans in scopes.items():
            scoped = block.scope_spans.add()
            scoped.CopyFrom(ScopeSpans.FromString(scope))
            scoped.spans.extend(spans)
    return bytes(request.SerializeToString())


def _logs(blocks: dict[bytes, dict[bytes, list[Any]]]) -> bytes:
    request = ExportLogsServiceRequest()
    for resource, scopes in blocks.items():
        block = request.resource_logs.add()
        block.CopyFrom(ResourceLogs.FromString(resource))
        for scope, logs in scopes.items():
            scoped = block.scope_logs.add()
            scoped.CopyFrom(ScopeLogs.FromString(scope))
            scoped.log_records.extend(logs)
    return bytes(request.SerializeToString())
