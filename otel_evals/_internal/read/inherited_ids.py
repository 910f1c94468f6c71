"""Who asked and in which conversation, where only the spans around a run tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from otel_evals._internal.model import Operation, Run, SpanRecord
from otel_evals._internal.model.derived import with_given

_PROPERTIES = "traceloop.association.properties."
_FIELDS = {
    "conversation_id": (
        "langfuse.session.id",
        "gen_ai.conversation.id",
        "session.id",
        "langwatch.thread.id",
        _PROPERTIES + "session_id",
        _PROPERTIES + "thread_id",
        "session_id",
        "conversation_id",
    ),
    "user_id": (
        "user.id",
        "enduser.id",
        "langfuse.user.id",
        "langwatch.user.id",
        _PROPERTIES + "user_id",
        "user_id",
        "enduser.pseudo.id",
    ),
}
"""By field of a run: OpenTelemetry's names for it and platforms', for spans that no dialect reads."""


def with_inherited_ids(
    runs: Sequence[Run],
    operations: Mapping[str, Operation],
    records: Mapping[str, SpanRecord],
    parents: Mapping[str, str | None],
) -> list[Run]:
    """Give runs the conversation and the user that the spans around them tell, where they tell none.

    The nearest span above a run counts, such as a session's or a request's; else the operations outside of
    all runs, such as the user's turn to speak, if they agree.
    """
    outside: Sequence[Operation] = ()
    if sum(len(run.operations) for run in runs) < len(operations):
        inside = {operation.span_id for run in runs for operation in run.operations}
        outside = [operation for span_id, operation in operations.items() if span_id not in inside]
    found = []
    for run in runs:
        told = {}
        for field in _FIELDS:
            if getattr(run, field) is None:
                value = _above(field, run.root_span_id, operations, records, parents)
                if value is None and outside:
                    value = _agreed(field, outside)
                if value is not None:
                    told[field] = value
        found.append(with_given(run, **told) if told else run)
    return found


def _agreed(field: str, outside: Sequence[Operation]) -> str | None:
    told = {value for operation in outside if (value := getattr(operation, field)) is not None}
    return told.pop() if len(told) == 1 else None


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
        told: Any = None
        if above in operations:
            told = getattr(operations[above], field)
        elif above in records:
            attributes = records[above].attributes
            told = next((attributes[key] for key in _FIELDS[field] if key in attributes), None)
        if isinstance(told, str) and told:
            return told
        above = parents.get(above)
    return None
