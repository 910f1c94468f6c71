"""What instrumentations log of a model call: its choice on the span above, and the whole call as an event."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec.structs import replace

from otel_evals._internal.model import SpanRecord
from otel_evals._internal.model.convention import Conventions

_CHOICE: Final = "gen_ai.choice"
_DETAILS: Final = "gen_ai.client.inference.operation.details"


def restore_choices(records: Mapping[str, SpanRecord], conventions: Conventions) -> list[SpanRecord]:
    """Move `gen_ai.choice` log records from a parent span to its model calls, in order.

    Instrumentations that log the choice of a streamed call after its span has ended log it on the parent.
    """
    restored = dict(records)
    for parent in records.values():
        choices = [log for log in parent.logs if log.name == _CHOICE]
        if not choices or conventions.choose(parent.scope_name, parent.attributes) is not None:
            continue
        inside = (record for record in records.values() if record.parent_span_id == parent.span_id)
        calls = sorted((r for r in inside if _lacks_choice(r, conventions)), key=lambda r: r.end_time or 0)
        # If the numbers differ, nothing says which call a choice belongs to.
        if len(calls) == len(choices):
            for call, choice in zip(calls, choices, strict=True):
                restored[call.span_id] = replace(call, logs=(*call.logs, choice))
    return list(restored.values())


def _lacks_choice(record: SpanRecord, conventions: Conventions) -> bool:
    if record.status == "ERROR" or _CHOICE in [log.name for log in record.logs]:
        return False
    return conventions.choose(record.scope_name, record.attributes) is not None


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
