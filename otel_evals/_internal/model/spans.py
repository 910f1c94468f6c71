"""What comes in: spans and their events, as their instrumentation wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import field

from otel_evals._internal.model.record import Record, nothing


class SpanEvent(Record, frozen=True, kw_only=True):
    """A span event, or a log record that belongs to a span."""

    name: str
    time: int = 0
    attributes: Mapping[str, Any] = field(default_factory=nothing)
    body: Any = None


class SpanRecord(Record, frozen=True, kw_only=True):
    """One span in the only form that dialects read, whether it ended in process or came from a file."""

    trace_id: str
    span_id: str
    parent_span_id: str | None = None
    name: str = ""
    kind: str = "INTERNAL"
    """OpenTelemetry's span kind: INTERNAL, SERVER, CLIENT, PRODUCER or CONSUMER."""
    start_time: int = 0
    end_time: int | None = None
    """None when the span never ended."""
    attributes: Mapping[str, Any] = field(default_factory=nothing)
    events: tuple[SpanEvent, ...] = ()
    logs: tuple[SpanEvent, ...] = ()
    """Log records emitted in this span's context, oldest first."""
    status: Literal["UNSET", "OK", "ERROR"] = "UNSET"
    status_message: str = ""
    scope_name: str = ""
    scope_version: str = ""
    resource: Mapping[str, Any] = field(default_factory=nothing)
    trace_flags: int = 1
    trace_state: str = ""
    parent_is_remote: bool = False
    dropped_attributes: int = 0
    links: tuple[tuple[str, str], ...] = ()
    """Trace and span ids of the spans that it is linked to."""
    spans_dropped: bool = False
    """Whether a limit removed spans from its trace that may have been below it."""
