"""Finds the origin of a run's content, and the causes of missing content."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from otel_evals._internal.model import Availability, Document, Operation, OperationKind, Source, ToolCall
from otel_evals._internal.read.question import Answer, Question

_NOTHING: frozenset[Availability] = frozenset()
_OF_ONE = ("input", "output", "system")
"""Fields that come from one operation; the others are collected from several."""


def find_provenance(
    operations: Sequence[Operation],
    question: Question | None,
    answer: Answer | None,
    calls: Sequence[ToolCall],
    documents: Sequence[Document],
    system: Operation | None,
) -> dict[str, Any]:
    """Return a run's `availability` and `sources`, from its operations and the content found in them."""
    availability: dict[str, Availability] = {}
    sources: dict[str, Source] = {}
    states: dict[str, set[Availability]] = {}
    holders: dict[str, Operation] = {}
    for operation in operations:
        for name, state in operation.availability.items():
            if name in states:
                states[name].add(state)
            else:
                states[name], holders[name] = {state}, operation
    for name, there, holder in (
        ("input", question is not None, question.operation if question else None),
        ("output", answer is not None, answer.operation if answer else None),
        ("system", system is not None, system),
        ("tool_arguments", _all_known(calls, "arguments"), None),
        ("tool_results", _all_known(calls, "result"), None),
        ("documents", any(d.content for d in documents), None),
    ):
        holder = holder or holders.get(name)
        source = holder.sources.get(name) if holder else None
        if source is not None:
            sources[name] = source
        state_of_one = holder.availability.get(name) if holder else None
        availability[name] = _state(name, there, state_of_one, states, operations, calls)
    if any(operation.span.spans_dropped for operation in operations):
        for name, state in availability.items():
            if name not in _OF_ONE or state is Availability.NOT_RECORDED:
                availability[name] = Availability.TRUNCATED
    return {"availability": availability, "sources": sources}


def _all_known(calls: Sequence[ToolCall], name: str) -> bool:
    return bool(calls) and all(
        getattr(c, name) is not None or (name == "result" and c.error is not None) for c in calls
    )


def _state(
    name: str,
    there: bool,
    state_of_one: Availability | None,
    states: Mapping[str, set[Availability]],
    operations: Sequence[Operation],
    calls: Sequence[ToolCall],
) -> Availability:
    """Return a field's availability; for a missing field, decide if content capture was off."""
    mine: AbstractSet[Availability] = states.get(name, _NOTHING)
    if there:
        cut = state_of_one is Availability.TRUNCATED if name in _OF_ONE else Availability.TRUNCATED in mine
        return Availability.TRUNCATED if cut else Availability.PRESENT
    if Availability.CAPTURED_OFF in mine:
        return Availability.CAPTURED_OFF
    if name in ("input", "output") and not mine:
        failed = [o.error is not None or o.error_type is not None for o in operations]
        if any(failed) and not _silent(states):
            return Availability.NOT_RECORDED  # the missing content never existed
        pairs = zip(operations, failed, strict=True)
        silent = any(o.kind is OperationKind.INFERENCE and not broke for o, broke in pairs)
        return Availability.CAPTURED_OFF if silent else Availability.NOT_RECORDED
    if name in ("tool_arguments", "tool_results") and calls and _silent(states):
        return Availability.CAPTURED_OFF
    return Availability.NOT_RECORDED


def _silent(states: Mapping[str, set[Availability]]) -> bool:
    """Return True if no operation has recorded any content."""
    return not any(Availability.PRESENT in found for found in states.values())
