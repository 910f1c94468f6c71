"""What instrumentations log of a model call: messages on the span above, and the whole call as an event."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final

from msgspec.structs import replace

from otel_evals._internal.model import OperationKind, SpanRecord
from otel_evals._internal.model.convention import Conventions

_START, _NAME = attrgetter("start_time"), attrgetter("name")
_MESSAGE: Final = re.compile(r"gen_ai\.(choice|\w+\.message)$")
_CHOICE: Final = "gen_ai.choice"
_DETAILS: Final = "gen_ai.client.inference.operation.details"


def restore_messages(records: Mapping[str, SpanRecord], conventions: Conventions) -> list[SpanRecord]:
    """Move the messages that are log records of a span above its model calls to these.

    They are there if the call's span was not the current one, as after the end of a streamed call. A message
    belongs to the call that began last before it, a choice to the call that ended next to it.
    """
    kept = {span_id: list(record.logs) for span_id, record in records.items()}
    read = filter(None, map(conventions.read, sorted(records.values(), key=_START)))
    calls = {o.span_id: o.span for o in read if o.kind is OperationKind.INFERENCE}
    for parent in records.values():
        if not parent.logs or parent.span_id in calls:
            continue
        inside = [call for call in calls.values() if call.parent_span_id == parent.span_id]
        kept[parent.span_id] = []
        for log in parent.logs:
            near = [call for call in inside if call.start_time <= log.time and _MESSAGE.match(log.name)]
            around = [call for call in near if log.time <= (call.end_time or 0)]
            if log.name == _CHOICE:
                around += (
                    c for c in near if c.status != "ERROR" and _CHOICE not in map(_NAME, kept[c.span_id])
                )
                around.sort(key=lambda call: -abs((call.end_time or 0) - log.time))
            owner = around[-1] if around else parent
            kept[owner.span_id].append(log)
    return [replace(record, logs=tuple(kept[span_id])) for span_id, record in records.items()]


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
