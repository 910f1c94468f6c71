"""Model calls that only an event tells, on a span of something else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from otel_evals.model import SpanRecord

__all__ = ["with_details"]

_DETAILS: Final = "gen_ai.client.inference.operation.details"


def with_details(records: Iterable[SpanRecord]) -> Iterator[SpanRecord]:
    """Yield the spans that hold such an event, with its attributes as their own."""
    for record in records:
        told: dict[str, Any] = {}
        for event in (*record.events, *record.logs):
            if _DETAILS in (event.name, event.attributes.get("event.name")):
                told.update(event.attributes)
                if isinstance(event.body, dict):
                    told.update(event.body)
        if told:
            # The span's scope is not that of the instrumentation that logged the event.
            yield replace(record, scope_name="", attributes={**told, **record.attributes})
