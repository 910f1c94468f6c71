"""Gives operations below lost spans, and model calls next to a silent agent, to the trace's only agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence

from otel_evals._internal.model import Operation, OperationKind
from otel_evals._internal.read.tree import descendants


def adopt(
    roots: Sequence[Operation],
    loose: Sequence[Operation],
    operations: Mapping[str, Operation],
    is_lost: Callable[[Operation], bool],
    above: MutableMapping[str, str | None],
    below: MutableMapping[str, tuple[str, ...]],
) -> tuple[list[Operation], list[Operation]]:
    """Return the roots and loose operations that remain, once the trace's only agent has its own.

    It takes what ran during it below a span that was lost. If it asked no model, it also takes the model
    calls next to it.

    Args:
        roots: outermost agents and workflows.
        loose: outermost operations outside of them.
        operations: all of the trace's.
        is_lost: returns True if the span above an operation was lost.
        above: each operation's nearest one above; updated.
        below: each operation's children; updated.
    """
    tops = [root for root in roots if not is_lost(root)]
    if len(tops) != 1 or (len(roots) == 1 and not loose):
        return list(roots), list(loose)
    (top,) = tops
    silent = top.kind is OperationKind.AGENT and not _asked(top, operations, below)
    rest: tuple[list[Operation], list[Operation]] = ([], [])
    for kept, found in zip(rest, (roots, loose), strict=True):
        for operation in found:
            is_its = operation is not top and _is_during(operation, top)
            if is_its and (is_lost(operation) or (silent and found is loose)):
                above[operation.span_id] = top.span_id
                below[top.span_id] = (*below.get(top.span_id, ()), operation.span_id)
            else:
                kept.append(operation)
    return rest


def _asked(top: Operation, operations: Mapping[str, Operation], below: Mapping[str, Sequence[str]]) -> bool:
    return any(o.kind is OperationKind.INFERENCE for o in descendants(top, operations, below))


def _is_during(operation: Operation, top: Operation) -> bool:
    span, around = operation.span, top.span
    ended = around.end_time is not None and span.end_time is not None and span.end_time <= around.end_time
    return ended and around.start_time <= span.start_time
