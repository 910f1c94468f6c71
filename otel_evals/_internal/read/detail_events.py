"""Model calls that are recorded only as an event, on another operation's span."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec.structs import replace

from otel_evals._internal.model import SpanRecord

_DETAILS: Final = "gen_ai.client.inference.operation.details"


def with_details(records: Iterable[SpanRecord]) -> Iterator[SpanRecord]:
    """Yield the spans that hold such an event, with its attributes as their own."""
    for record in records:
        added: dict[str, Any] = {}
        for event in (*record.events, *record.logs):
            if _DETAILS in (event.name, event.attributes.get("event.name")):
                added.update(event.attributes)
                if isinstance(event.body, dict):
                    added.update(event.body)
        if added:
            # The event came from another instrumentation than the span: its scope says nothing.
            yield replace(record, scope_name="", attributes={**added, **record.attributes})
