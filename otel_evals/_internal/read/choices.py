"""Restores model calls, or their choices, that were recorded as events of other spans."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from otel_evals._internal.dialect import Dialects
from otel_evals._internal.model import SpanRecord

_CHOICE: Final = "gen_ai.choice"
_DETAILS: Final = "gen_ai.client.inference.operation.details"


def restore_choices(records: Mapping[str, SpanRecord], dialects: Dialects) -> Mapping[str, SpanRecord]:
    """Move `gen_ai.choice` log records from a parent span to its model calls, in order.

    Instrumentations that log the choice of a streamed call after its span has ended log it on the parent.
    """
    restored: dict[str, SpanRecord] = {}
    for record in records.values():
        if not record.logs or dialects.choose(record.scope_name, record.attributes) is not None:
            continue
        choices = [log for log in record.logs if log.name == _CHOICE]
        if choices:
            calls = sorted(_without_choice(record.span_id, records, dialects), key=lambda r: r.end_time or 0)
            if len(calls) == len(choices):
                restored.update(
                    (c.span_id, replace(c, logs=(*c.logs, log)))
                    for c, log in zip(calls, choices, strict=True)
                )
    return {**records, **restored} if restored else records


def _without_choice(
    parent: str, records: Mapping[str, SpanRecord], dialects: Dialects
) -> Iterable[SpanRecord]:
    for record in records.values():
        has_choice = any(log.name == _CHOICE for log in record.logs)
        if record.parent_span_id != parent or record.status == "ERROR" or has_choice:
            continue
        if dialects.choose(record.scope_name, record.attributes) is not None:
            yield record


def with_details(records: Iterable[SpanRecord]) -> Iterator[SpanRecord]:
    """Yield the spans with an event for a whole model call, with the event's attributes as their own."""
    for record in records:
        added: dict[str, Any] = {}
        for event in (*record.events, *record.logs):
            if _DETAILS in (event.name, event.attributes.get("event.name")):
                added.update(event.attributes)
                if isinstance(event.body, dict):
                    added.update(event.body)
        if added:
            # Another instrumentation recorded the event: the span's scope does not apply.
            yield replace(record, scope_name="", attributes={**added, **record.attributes})
