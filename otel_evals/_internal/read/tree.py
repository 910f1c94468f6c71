"""The tree of a trace's operations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from otel_evals._internal.model import Operation


def descendants(
    top: Operation, operations: Mapping[str, Operation], below: Mapping[str, Sequence[str]]
) -> Iterable[Operation]:
    """All operations below one, depth first; `below` maps each span to its children."""
    stack = list(reversed(below.get(top.span_id, ())))
    while stack:
        span_id = stack.pop()
        yield operations[span_id]
        stack.extend(reversed(below.get(span_id, ())))
