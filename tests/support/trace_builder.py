"""Traces made up for tests of reading: spans with attributes, and what is read from them."""

from __future__ import annotations

from typing import Any

from otel_evals._internal.read.runs import find_runs
from otel_evals.conventions import load_conventions
from otel_evals.model import Run, SpanEvent, SpanRecord

KNOWN_CONVENTIONS = load_conventions()


class TraceBuilder:
    """The spans of one trace; each is given its name, its attributes and the number of the one above."""

    def __init__(self, scope: str) -> None:
        self.scope = scope
        self.spans: list[SpanRecord] = []

    def add(self, name: str, attributes: dict[str, Any], above: int | None = 0, **more: Any) -> TraceBuilder:
        number = len(self.spans)
        parent = None if number == 0 or above is None else f"{above + 1:016x}"
        self.spans.append(
            SpanRecord(
                trace_id="b" * 32,
                span_id=f"{number + 1:016x}",
                parent_span_id=parent,
                name=name,
                start_time=number * 10,
                end_time=1_000 - number if number == 0 else number * 10 + 5,
                attributes=attributes,
                scope_name=more.pop("scope", self.scope),
                **more,
            )
        )
        return self

    @property
    def run(self) -> Run:
        """The only run of the trace."""
        (run,) = find_runs(self.spans, KNOWN_CONVENTIONS)
        return run


def raised(text: str) -> dict[str, Any]:
    """A span that ended in an exception."""
    event = SpanEvent(name="exception", attributes={"exception.type": "KeyError", "exception.message": text})
    return {"status": "ERROR", "events": (event,)}


def span(number: int, attributes: dict[str, Any], *, parent: int | None = 1, **more: Any) -> SpanRecord:
    """One span; the first stands above the others unless told otherwise."""
    values: dict[str, Any] = {"start_time": number * 10, "end_time": 990 if number == 1 else number * 10 + 5}
    return SpanRecord(
        trace_id="b" * 32,
        span_id=f"{number:016x}",
        parent_span_id=None if number == 1 or parent is None else f"{parent:016x}",
        attributes=attributes,
        **{**values, **more},
    )


def run_of(*spans: SpanRecord) -> Run:
    """The only run of these spans."""
    (run,) = find_runs(spans, KNOWN_CONVENTIONS)
    return run
