"""The tree of a trace's operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from otel_evals._internal.model import Operation, OperationKind

_INVOCATIONS = (OperationKind.AGENT, OperationKind.WORKFLOW)


def descendants(
    top: Operation, operations: Mapping[str, Operation], below: Mapping[str, Sequence[str]]
) -> Iterable[Operation]:
    """Yield all operations below one, depth first; `below` maps each span to its children."""
    stack = list(reversed(below.get(top.span_id, ())))
    while stack:
        span_id = stack.pop()
        yield operations[span_id]
        stack.extend(reversed(below.get(span_id, ())))


def nearest(operations: Mapping[str, Operation], parents: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return each operation's nearest operation above. Cycles are cut at their first span."""
    above: dict[str, str | None] = {}
    in_order = True
    for span_id in operations:
        parent = parents.get(span_id)
        if parent is not None and parent not in operations:
            parent = _beyond(span_id, parent, operations, parents)
        if (
            parent is not None
            and operations[parent].kind is OperationKind.INFERENCE
            and _came_after(operations[span_id], operations[parent])
        ):
            parent = above.get(parent)
        above[span_id] = None if parent == span_id else parent
        in_order = in_order and (parent is None or parent in above)
    if in_order:  # every span comes after the one above it, so there is no cycle
        return above
    for span_id in operations:
        seen = {span_id}
        parent = above[span_id]
        while parent is not None and parent not in seen:
            seen.add(parent)
            parent = above[parent]
        if parent == span_id:
            above[span_id] = None
    return above


def _came_after(operation: Operation, parent: Operation) -> bool:
    """Return True if a model call had ended before an operation below it, but was still the current span."""
    return (
        operation.kind in (*_INVOCATIONS, OperationKind.INFERENCE)
        and parent.span.end_time is not None
        and parent.span.end_time <= operation.span.start_time
        and parent.span.scope_name == operation.span.scope_name
    )


def _beyond(
    span_id: str, parent: str, operations: Mapping[str, Operation], parents: Mapping[str, str | None]
) -> str | None:
    seen = {span_id}
    above: str | None = parent
    while above is not None and above not in operations and above not in seen:
        seen.add(above)
        above = parents.get(above)
    return None if above in seen else above


def children_of(
    operations: Mapping[str, Operation], above: Mapping[str, str | None]
) -> dict[str, tuple[str, ...]]:
    below: dict[str, Any] = {}
    for span_id in operations:
        parent = above[span_id]
        if parent is not None:
            below.setdefault(parent, []).append(span_id)
    for parent, children in below.items():
        below[parent] = tuple(children)
    return below
