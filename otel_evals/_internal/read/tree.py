"""The tree of a trace's operations."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from math import inf
from typing import Any, Final

import msgspec

from otel_evals._internal.model import Operation, OperationKind, SpanRecord

INVOCATIONS = (OperationKind.AGENT, OperationKind.WORKFLOW)
_ATTRIBUTES = """
openinference.span.kind gen_ai.operation.name gen_ai.span.kind traceloop.span.kind
langfuse.observation.type langwatch.span.type mlflow.spanType mastra.span.type type
"""
_KINDS: Final = frozenset(_ATTRIBUTES.split())
"""Attributes for the kind of a span, by convention."""
# Backends that store attributes as JSON keep the quotes.
_GUARD: Final = re.compile(r'guardrail|^"?(?:evaluat|moderation)', re.IGNORECASE)


_MAY_LEAK: Final = (OperationKind.INFERENCE, OperationKind.AGENT)
"""Kinds whose spans libraries leave as the current one after their end."""
_MILLISECOND: Final = 1_000_000


class Tree(msgspec.Struct, frozen=True, eq=False):
    """The operations of a trace, and how they contain each other."""

    operations: dict[str, Operation]
    """By span id, sorted by start."""
    above: dict[str, str | None]
    """Each operation's nearest operation above."""
    below: dict[str, tuple[str, ...]]
    """The operations directly below each one, if there are any."""
    guards: frozenset[str]
    """Guardrails and evaluators, whose model calls have no answer for the user."""

    def inside(self, top: Operation) -> Iterator[Operation]:
        """Yield all operations below one, depth first."""
        stack = list(reversed(self.below.get(top.span_id, ())))
        while stack:
            span_id = stack.pop()
            yield self.operations[span_id]
            stack.extend(reversed(self.below.get(span_id, ())))


def make_tree(operations: dict[str, Operation], parents: Mapping[str, str | None]) -> Tree:
    """Return the tree of operations, given the parents of all spans."""
    above = _nearest(operations, parents)
    below: dict[str, Any] = {}
    for span_id in operations:
        parent = above[span_id]
        if parent is not None:
            below.setdefault(parent, []).append(span_id)
    for parent, children in below.items():
        below[parent] = tuple(children)
    return Tree(operations, above, below, guards_in(operations.values()))


def guards_in(operations: Iterable[Operation]) -> frozenset[str]:
    """Return the span ids of guardrails and evaluators."""
    return frozenset(o.span_id for o in operations if o.kind is OperationKind.OTHER and _is_guard(o))


def _is_guard(operation: Operation) -> bool:
    attributes = operation.span.attributes
    return any(_GUARD.search(str(attributes[key])) for key in _KINDS.intersection(attributes))


def parents_in(children: Mapping[str, Iterable[str]]) -> dict[str, str | None]:
    """Return the parent of each child."""
    return {child: parent for parent, below in children.items() for child in below}


def is_during(inner: SpanRecord, outer: SpanRecord) -> bool:
    """Return True if a span started and ended during another."""
    ended = inner.end_time is not None and outer.end_time is not None and inner.end_time <= outer.end_time
    return ended and outer.start_time <= inner.start_time


def is_before(end: int, start: int) -> bool:
    """Return True if a span had ended when another started; JavaScript rounds starts to milliseconds."""
    return end <= start or (start % _MILLISECOND == 0 and end - start < _MILLISECOND)


def _nearest(operations: Mapping[str, Operation], parents: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return each operation's nearest operation above. Cycles are cut at their first span."""
    above: dict[str, str | None] = {}
    in_order = True
    for span_id in operations:
        parent = parents.get(span_id)
        if parent is not None and parent not in operations:
            parent = _beyond(span_id, parent, operations, parents)
        if parent is not None:
            over, start = operations[parent], operations[span_id].span.start_time
            may_leak = over.kind in _MAY_LEAK and (over.span.end_time or inf) <= start
            if may_leak and _came_after(operations[span_id], over):
                # The parent ended before this span began, so it comes first in the order by start.
                parent = above.get(parent)
        above[span_id] = None if parent == span_id else parent
        in_order = in_order and (parent is None or parent in above)
    if in_order:  # every span comes after the one above it, so there is no cycle
        return above
    known: set[str | None] = {None}
    for span_id in operations:
        seen = {span_id}
        parent = above[span_id]
        while parent not in known and parent not in seen:
            seen.add(parent)  # type: ignore[arg-type]  # None is known
            parent = above[parent]  # type: ignore[index]
        if parent == span_id:
            above[span_id] = None
        if parent in known or parent == span_id:  # no cycle is left above these
            known |= seen
    return above


def _came_after(operation: Operation, parent: Operation) -> bool:
    """Return True if a parent was still the current span after its end, when an operation below it began.

    A streamed agent's span may end before its work, but then it has no answer.
    """
    if parent.span.scope_name != operation.span.scope_name:
        return False
    if parent.kind is OperationKind.AGENT:
        return operation.kind is OperationKind.AGENT and bool(parent.output_messages)
    return operation.kind in (*INVOCATIONS, OperationKind.INFERENCE)


def _beyond(
    span_id: str, parent: str, operations: Mapping[str, Operation], parents: Mapping[str, str | None]
) -> str | None:
    """Return the nearest operation above a parent that is not an operation."""
    seen = {span_id}
    above: str | None = parent
    while above is not None and above not in operations and above not in seen:
        seen.add(above)
        above = parents.get(above)
    return None if above in seen else above
