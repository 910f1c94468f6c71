"""Conversation and user ids that a run inherits from the spans around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_evals._internal.model import Operation, Run, SpanRecord
from otel_evals._internal.model.derived import with_given

_NAMES = {
    "conversation_id": """
        langfuse.session.id gen_ai.conversation.id session.id langwatch.thread.id
        traceloop.association.properties.session_id traceloop.association.properties.thread_id
        session_id conversation_id
    """,
    "user_id": """
        user.id enduser.id langfuse.user.id langwatch.user.id
        traceloop.association.properties.user_id user_id enduser.pseudo.id
    """,
}
_FIELDS = {field: names.split() for field, names in _NAMES.items()}
"""Attribute names by field of a run, for spans that no dialect reads."""


def with_inherited_ids(
    runs: Sequence[Run],
    operations: Mapping[str, Operation],
    records: Mapping[str, SpanRecord],
    parents: Mapping[str, str | None],
) -> list[Run]:
    """Add the conversation and the user from the spans around runs to runs that lack them.

    They come from the nearest span above a run, such as a session or a request, or else from the operations
    outside of all runs, such as the user's turn to speak, if these have the same ids.
    """
    inside = {operation.span.span_id for run in runs for operation in run.operations}
    outside = [operation for span_id, operation in operations.items() if span_id not in inside]
    found = []
    for run in runs:
        known = {}
        for field in _FIELDS:
            if getattr(run, field) is None:
                values = {getattr(operation, field) for operation in outside} - {None}
                value = _above(field, run.root_span_id, operations, records, parents)
                if value is not None or len(values) == 1:
                    known[field] = values.pop() if value is None else value
        found.append(with_given(run, **known) if known else run)
    return found


def _above(
    field: str,
    span_id: str,
    operations: Mapping[str, Operation],
    records: Mapping[str, SpanRecord],
    parents: Mapping[str, str | None],
) -> str | None:
    seen = {span_id}
    above = parents.get(span_id)
    while above is not None and above not in seen:
        seen.add(above)
        value: Any = None
        if above in operations:
            value = getattr(operations[above], field)
        elif above in records:
            attributes = records[above].attributes
            value = next((attributes[key] for key in _FIELDS[field] if key in attributes), None)
        if isinstance(value, str) and value:
            return value
        above = parents.get(above)
    return None
