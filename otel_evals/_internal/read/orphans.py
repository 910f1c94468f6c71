"""Gives operations below lost spans, and model calls next to a silent agent, to the trace's only agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from otel_evals._internal.model import Operation, OperationKind
from otel_evals._internal.read.tree import Tree, is_during


def adopt(
    roots: Sequence[Operation], loose: Sequence[Operation], tree: Tree, is_lost: Callable[[Operation], bool]
) -> tuple[list[Operation], list[Operation]]:
    """Return the roots and loose operations that remain, once the trace's only agent has adopted its own.

    The agent adopts operations during it whose parent span was lost, in place in the tree. An agent without
    model calls also adopts the model calls next to it.
    """
    tops = [root for root in roots if not is_lost(root)]
    if len(tops) != 1 or (len(roots) == 1 and not loose):
        return list(roots), list(loose)
    (top,) = tops
    silent = top.kind is OperationKind.AGENT and all(
        o.kind is not OperationKind.INFERENCE for o in tree.inside(top)
    )
    rest: tuple[list[Operation], list[Operation]] = ([], [])
    for kept, found in zip(rest, (roots, loose), strict=True):
        for operation in found:
            is_its = operation is not top and is_during(operation.span, top.span)
            if is_its and (is_lost(operation) or (silent and found is loose)):
                tree.above[operation.span_id] = top.span_id
                tree.below[top.span_id] = (*tree.below.get(top.span_id, ()), operation.span_id)
            else:
                kept.append(operation)
    return rest
