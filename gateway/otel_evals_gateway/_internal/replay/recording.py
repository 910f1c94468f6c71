"""Recorded spans and log records, read whole: as they stand in OTLP files, with nothing of them left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from google.protobuf.json_format import ParseError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals.sdk.otlp import read_requests
from otel_evals_gateway._internal.receiver.decoder import json_message

__all__ = ["Recorded", "RecordedTraffic", "read_recording"]

_BLOCKS: tuple[tuple[Literal["traces", "logs"], str, Any], ...] = (
    ("traces", "resourceSpans", ExportTraceServiceRequest),
    ("logs", "resourceLogs", ExportLogsServiceRequest),
)
_FIELDS = {
    "traces": ("resource_spans", "scope_spans", "spans"),
    "logs": ("resource_logs", "scope_logs", "log_records"),
}


@dataclass(slots=True, eq=False)
class Recorded:
    """One recorded span or log record."""

    signal: Literal["traces", "logs"]
    trace: bytes
    """Its trace id; empty for a log record outside of any trace."""
    start: int
    """When the span started or the log record was written, in nanoseconds."""
    known: int
    """When it was known whole: the span's end, in nanoseconds."""
    data: bytes
    """Its protobuf message."""
    resource: bytes
    """The message of the resource's block, without what is in it."""
    scope: bytes
    """The message of the scope's block, without what is in it."""


@dataclass(slots=True)
class RecordedTraffic:
    """What was read."""

    items: list[Recorded] = field(default_factory=list)
    """In the order in which they were known."""
    unusable: Counter[str] = field(default_factory=Counter)
    """What is not sent, by reason."""

    def count(self, signal: str) -> int:
        """How many items there are of a signal."""
        return sum(item.signal == signal for item in self.items)

    @property
    def traces(self) -> int:
        """How many traces there are."""
        return len({item.trace for item in self.items if item.trace})


def read_recording(
    paths: Iterable[str], skipped: Callable[[str, int], None] | None = None
) -> RecordedTraffic:
    """Read files: OTLP as JSON, JSON lines or protobuf, gzip or not; `-` is standard input.

    Args:
        paths: the files.
        skipped: called with a file and a line's number for each line that is no JSON.

    Raises:
        ConfigError: a file is missing or holds no OTLP at all.
    """
    recording = RecordedTraffic()
    shared: dict[bytes, bytes] = {}
    for path in paths:
        for request in read_requests(path, skipped):
            for signal, message in _messages(request, recording.unusable):
                recording.items += _items(signal, message, shared, recording.unusable)
    recording.items.sort(key=lambda item: item.known)
    return recording


def _messages(request: Any, unusable: Counter[str]) -> Iterator[tuple[Literal["traces", "logs"], Any]]:
    if hasattr(request, "SerializeToString"):
        yield ("traces" if hasattr(request, "resource_spans") else "logs"), request
        return
    for part in request if isinstance(request, list) else (request,):
        if not isinstance(part, Mapping):
            unusable["not OTLP"] += 1
            continue
        found = [block for block in _BLOCKS if block[1] in part]
        if not found:
            unusable["neither spans nor log records"] += 1
        for signal, name, kind in found:
            try:
                yield signal, json_message({name: part[name]}, kind())
            except (ValueError, TypeError, AttributeError, RecursionError, ParseError):
                unusable["not OTLP"] += 1


def _items(
    signal: Literal["traces", "logs"], message: Any, shared: dict[bytes, bytes], unusable: Counter[str]
) -> Iterator[Recorded]:
    """The items of a message; blocks that are alike share their bytes."""

    def around(block: Any, inner: str) -> bytes:
        copy = type(block)()
        copy.CopyFrom(block)
        copy.ClearField(inner)
        data = copy.SerializeToString()
        return shared.setdefault(data, data)

    spans = signal == "traces"
    blocks, scopes, items = _FIELDS[signal]
    for block in getattr(message, blocks):
        resource = around(block, scopes)
        for scoped in getattr(block, scopes):
            scope = around(scoped, items)
            for item in getattr(scoped, items):
                times = _span_times(item) if spans else _log_times(item)
                if not times:
                    unusable["without a time" if not spans else "without ids or times"] += 1
                    continue
                data = item.SerializeToString()
                yield Recorded(signal, item.trace_id, min(times), max(times), data, resource, scope)


def _span_times(span: Any) -> list[int]:
    if len(span.trace_id) != 16 or len(span.span_id) != 8:
        return []
    return [time for time in (span.start_time_unix_nano, span.end_time_unix_nano) if time]


def _log_times(log: Any) -> list[int]:
    return [time for time in (log.time_unix_nano or log.observed_time_unix_nano,) if time]
