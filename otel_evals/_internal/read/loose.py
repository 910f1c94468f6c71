"""What is no run by itself: operations outside of agents, and workflows that only wrap something."""

from __future__ import annotations

from collections.abc import Sequence, Set

from msgspec.structs import replace

from otel_evals._internal.model import Operation, OperationKind
from otel_evals._internal.read.question import answer_of, find_question, is_data_of
from otel_evals._internal.read.tree import Tree, in_order, is_during

_WORK = (OperationKind.AGENT, OperationKind.INFERENCE, OperationKind.TOOL, OperationKind.RETRIEVAL)
_MODELS = (OperationKind.INFERENCE,)


def adopt_lost(
    tree: Tree, roots: list[Operation], loose: list[Operation], lost: Set[str]
) -> tuple[Tree, list[Operation], list[Operation]]:
    """Give operations below lost spans, and model calls next to a silent agent, to the trace's only agent.

    The agent adopts operations during it whose parent span is `lost`. An agent without model calls also
    adopts the model calls next to it.
    """
    tops = [root for root in roots if root.span_id not in lost]
    # Among several agents, nothing says whose a lost operation is.
    if len(tops) != 1:
        return tree, roots, loose
    (top,) = tops
    kinds = {operation.kind for operation in tree.inside(top)}
    silent = top.kind is OperationKind.AGENT and OperationKind.INFERENCE not in kinds
    apart = [o for o in (*roots, *loose) if o.span_id in lost]
    if silent:
        apart = [*(o for o in roots if o is not top), *loose]
    ids = [o.span_id for o in apart if is_during(o.span, top.span)]
    if not ids:
        return tree, roots, loose
    below = {**tree.below, top.span_id: (*tree.below.get(top.span_id, ()), *ids)}
    tree = replace(tree, above={**tree.above, **dict.fromkeys(ids, top.span_id)}, below=below)
    return tree, [o for o in roots if o.span_id not in ids], [o for o in loose if o.span_id not in ids]


def without_foreign_tools(
    tree: Tree, roots: Sequence[Operation], loose: Sequence[Operation]
) -> list[Operation]:
    """Drop calls that another trace or process asked for, and their servers' spans.

    Tools that no model asked for may contain the run: a framework records its prompts as functions.
    """
    # A server's span linked to another trace: that one has the call.
    kept = [
        o
        for o in loose
        if (o.kind, o.span.kind) != (OperationKind.TOOL, "SERVER")
        or all(trace_id == o.span.trace_id for trace_id, _ in o.span.links)
    ]
    if roots or any(o.kind is not OperationKind.TOOL for o in kept):
        return kept
    kept = [o for o in kept if not _is_asked_elsewhere(o, tree) or contains(o, _MODELS, tree)]
    if any(o.span.kind == "SERVER" for o in kept):
        return kept
    return _unwrapped(loose, tree) if kept else kept


def _unwrapped(tools: Sequence[Operation], tree: Tree) -> list[Operation]:
    """Return tools, or else what is directly inside of those that contain a model call."""
    found: list[Operation] = []
    stack = [tool.span_id for tool in tools]
    while stack:
        operation = tree.operations[stack.pop()]
        if operation.kind is OperationKind.OTHER or contains(operation, _MODELS, tree):
            stack.extend(set(tree.below.get(operation.span_id, ())) - tree.guards)
        else:
            found.append(operation)
    return sorted(found, key=in_order)


def _is_asked_elsewhere(operation: Operation, tree: Tree) -> bool:
    """Return True for a tool's server, or for a lone call with an id that lost its parent, as in streams."""
    if operation.span.kind in ("SERVER", "CONSUMER"):
        return True
    if operation.span.parent_span_id is not None or operation.span_id in tree.below:
        return False
    call = operation.tool_call
    return call is not None and call.id is not None


def does_something(root: Operation, tree: Tree) -> bool:
    """Return True if a workflow has work in it; other workflows are mere functions."""
    inside = (root, *tree.inside(root))
    if any(o.kind in _WORK for o in inside):  # first: it reads no content
        return True
    # Only agents have user and assistant messages in their output.
    roles = ({message.role for message in operation.output_messages} for operation in inside)
    return any(found >= {"user", "assistant"} for found in roles) or _is_turn(root)


def _is_turn(root: Operation) -> bool:
    """Return True for a root with a question, and an answer or an error, even with nothing inside."""
    if not root.stands_alone:
        return False
    answer = answer_of(root)
    if (answer is None and root.error is None) or is_data_of(root, answer):
        return False
    question = find_question(root, (root,))
    return question is not None and not is_data_of(root, question.messages[-1].text)


def contains(top: Operation, kinds: Sequence[OperationKind], tree: Tree) -> bool:
    """Return True if a tool contains operations of these kinds, such as an agent on a server."""
    return top.kind is OperationKind.TOOL and any(o.kind in kinds for o in tree.inside(top))
