"""Who asked and in which conversation, where only the spans around a run tell it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from otel_evals.model import Operation, Run, SpanRecord

__all__ = ["with_surroundings"]

_FIELDS = {
    "conversation_id": ("gen_ai.conversation.id", "session.id"),
    "user_id": ("user.id", "enduser.id"),
}
"""By field of a run: OpenTelemetry's names for it, for spans that no dialect reads."""


def with_surroundings(
    runs: Sequence[Run],
    operations: Mapping[str, Operation],
    records: Mapping[str, SpanRecord],
    parents: Mapping[str, str | None],
) -> list[Run]:
    """Give runs the conversation and the user that the spans around them tell, where they tell none.

    The nearest span above a run counts, such as a session's or a request's; else the operations outside of
    all runs, such as the user's turn to speak, if they agree.
    """
    if sum(len(run.operations) for run in runs) == len(operations) == len(records):
        return list(runs)  # nothing is around them
    if all(run.conversation_id is not None and run.user_id is not None for run in runs):
        return list(runs)
    inside = {operation.span_id for run in runs for operation in run.operations}
    outside = [operation for span_id, operation in operations.items() if span_id not in inside]
    if not outside and len(operations) == len(records):
        return list(runs)
    agreed = {field: _agreed(field, outside) for field in _FIELDS}
    found = []
    for run in runs:
        told = {
            field: _above(field, run.root_span_id, operations, records, parents) or agreed[field]
            for field in _FIELDS
            if getattr(run, field) is None
        }
        told = {field: value for field, value in told.items() if value is not None}
        found.append(replace(run, **told) if told else run)  # type: ignore[arg-type]  # both are texts
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
    for above in _ancestors(span_id, parents):
        if above in operations:
            told = getattr(operations[above], field)
        elif above in records:
            attributes = records[above].attributes
            told = next(
                (v for key in _FIELDS[field] if isinstance(v := attributes.get(key), str) and v), None
            )
        else:
            continue
        if told is not None:
            return str(told)
    return None


def _ancestors(span_id: str, parents: Mapping[str, str | None]) -> Iterator[str]:
    seen = {span_id}
    above = parents.get(span_id)
    while above is not None and above not in seen:
        yield above
        seen.add(above)
        above = parents.get(above)
