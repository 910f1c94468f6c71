"""The base of all records, spans with their events, and losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import field
from msgspec.structs import force_setattr

from otel_evals._internal.model.read_only import ReadOnlyDict, read_only

_NOTHING: Mapping[str, Any] = ReadOnlyDict()


def nothing() -> Mapping[str, Any]:
    """Return an empty mapping, the same for every record."""
    return _NOTHING


class Record(msgspec.Struct, frozen=True, gc=False):
    """Base of the model's records; `msgspec.structs` has `replace`, `asdict` and `fields` for them.

    The garbage collector skips them: a record refers only to values created before it, so none is in a cycle.
    """


class SpanEvent(Record, frozen=True, kw_only=True):
    """A span event, or a log record that belongs to a span."""

    name: str
    time: int = 0
    attributes: Mapping[str, Any] = field(default_factory=nothing)
    body: Any = None
    dropped_attributes: int = 0

    def __post_init__(self) -> None:
        force_setattr(self, "attributes", read_only(self.attributes))
        force_setattr(self, "body", read_only(self.body))


class SpanRecord(Record, frozen=True, kw_only=True):
    """One span, as conventions read it; it ended in process, was received or was read from a file."""

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
    """Trace and span ids of linked spans."""
    spans_dropped: bool = False
    """True if a limit removed spans from its trace that may have been below it."""

    def __post_init__(self) -> None:
        force_setattr(self, "attributes", read_only(self.attributes))
        if type(self.resource) is dict:
            force_setattr(self, "resource", read_only(self.resource))


class Loss(Record, frozen=True):
    """Runs, spans or log records in one trace that are not scored."""

    what: Literal["run", "span", "log"]
    reason: str
    """Low cardinality; `otel_evals._internal.accounting.reasons` has the meanings."""
    trace_id: str
    count: int = 1
