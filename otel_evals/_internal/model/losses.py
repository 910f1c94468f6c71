"""What was given up before any rule was asked: runs, spans and log records, with the reason."""

from __future__ import annotations

from typing import Literal

from otel_evals._internal.model.record import Record


class Loss(Record, frozen=True):
    """Runs, spans or log records of one trace that will not be judged."""

    what: Literal["run", "span", "log"]
    reason: str
    """Low cardinality; `otel_evals._internal.accounting.reasons` has the meanings."""
    trace_id: str
    count: int = 1
