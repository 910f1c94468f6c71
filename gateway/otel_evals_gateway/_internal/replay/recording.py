"""Recorded spans and log records, read completely from OTLP files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from google.protobuf.json_format import ParseError

from otel_evals.sdk.otlp import read_requests
from otel_evals_gateway._internal.receiver.decoder import FIELDS, MESSAGES, json_message

_Signal = Literal["traces", "logs"]
_BLOCKS: dict[_Signal, str] = {"traces": "resourceSpans", "logs": "resourceLogs"}


@dataclass(slots=True, eq=False)
class Recorded:
    """One recorded span or log record."""

    signal: _Signal
    trace: bytes
    """Its trace id; empty for a log record outside of any trace."""
    start: int
    """Start of the span or time of the log record, in nanoseconds."""
    known: int
    """End of the span or time of the log record, in nanoseconds."""
    data: bytes
    """Its protobuf message."""
    resource: bytes
    """The message of the resource's block, without its content."""
    scope: bytes
    """The message of the scope's block, without its content."""


@dataclass(slots=True)
class RecordedTraffic:
    """All spans and log records of some recordings."""

    items: list[Recorded] = field(default_factory=list)
    """In the order of `known`."""
    unusable: Counter[str] = field(default_factory=Counter)
    """Items that are not sent, by reason."""

    def count(self, signal: str) -> int:
        return sum(item.signal == signal for item in self.items)

    @property
    def traces(self) -> int:
        return len({item.trace for item in self.items if item.trace})


def read_recording(
    paths: Iterable[str], skipped: Callable[[str, int], None] | None = None
) -> RecordedTraffic:
    """Read files: OTLP as JSON, JSON lines or protobuf, gzip or not; `-` is standard input.

    `skipped` gets file and line number of each line that is not OTLP.
    """
    recording = RecordedTraffic()
    shared: dict[bytes, bytes] = {}

    def skip(path: str, line: int) -> None:
        recording.unusable["not OTLP"] += 1
        if skipped is not None:
            skipped(path, line)

    for path in paths:
        for request in read_requests(path, skip):
            for signal, message in _messages(request, recording.unusable):
                recording.items += _items(signal, message, shared, recording.unusable)
    recording.items.sort(key=lambda item: item.known)
    return recording


def _messages(request: Any, unusable: Counter[str]) -> Iterator[tuple[_Signal, Any]]:
    if hasattr(request, "SerializeToString"):
        yield ("traces" if hasattr(request, "resource_spans") else "logs"), request
        return
    for part in request if isinstance(request, list) else (request,):
        if not isinstance(part, Mapping):
            unusable["not OTLP"] += 1
            continue
        found = [(signal, name) for signal, name in _BLOCKS.items() if name in part]
        if not found:
            unusable["neither spans nor log records"] += 1
        for signal, name in found:
            try:
                yield signal, json_message({name: part[name]}, MESSAGES[signal]())
            except (ValueError, TypeError, AttributeError, RecursionError, ParseError):
                unusable["not OTLP"] += 1


def _items(
    signal: _Signal, message: Any, shared: dict[bytes, bytes], unusable: Counter[str]
) -> Iterator[Recorded]:
    """Yield the items of a message; equal blocks share their bytes."""

    def around(block: Any, inner: str) -> bytes:
        copy = type(block)()
        copy.CopyFrom(block)
        copy.ClearField(inner)
        data = copy.SerializeToString()
        return shared.setdefault(data, data)

    spans = signal == "traces"
    blocks, scopes, items = FIELDS[signal]
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
