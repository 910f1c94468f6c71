"""What people said of traces in a backend."""

from __future__ import annotations

from typing import Literal

from otel_evals._internal.model.record import Record


class Feedback(Record, frozen=True, kw_only=True):
    """What was said of a trace or of a span in it, as a backend has it."""

    name: str
    """What was asked, such as a scorer's id."""
    value: float | bool | str | None
    """A number, yes or no, or a category."""
    by: Literal["person", "api", "judge"]
    """Who said it: a person in the backend's own pages, a program by its API, or a judge."""
    author: str = ""
    """Who of them; empty where that is not told."""
    time: int
    """When it was said last, in nanoseconds since the Unix epoch."""
    trace_id: str | None = None
    """32 hex digits; None where the backend names the span alone."""
    span_id: str | None = None
    """16 hex digits; None where the whole trace is meant."""
    comment: str | None = None
