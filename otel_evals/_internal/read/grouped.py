"""Splits traces in which an application's span groups several invocations into one run each."""

from __future__ import annotations

from collections.abc import Iterable

from otel_evals._internal.model import Operation, OperationKind
from otel_evals._internal.read.question import find_answer, find_question
from otel_evals._internal.read.tree import INVOCATIONS, Tree, is_during

_DISTINCTIVE = 8
"""Length of an answer that a later question does not contain by chance."""


def invocations_in(root: Operation, tree: Tree) -> list[Operation]:
    """Return the invocations that a root only groups, or else the root itself.

    Invocations are separate if each has a different question, and an answer or an error. Agents that hand
    over to each other have the same question, or ask with the previous agent's answer. An agent may also be
    a tool of an earlier one, in a span next to it.
    """
    if not root.groups_invocations or root.input_messages or root.output_messages:
        return [root]
    found: list[Operation] = []
    stack = list(reversed(tree.below.get(root.span_id, ())))
    while stack:
        operation = tree.operations[stack.pop()]
        if operation.kind in INVOCATIONS:
            found.append(operation)
        elif operation.kind is OperationKind.OTHER:
            stack.extend(reversed(tree.below.get(operation.span_id, ())))
        else:
            return [root]  # the root does work itself
    return found if len(found) > 1 and _are_apart(found, tree) else [root]


def _are_apart(found: Iterable[Operation], tree: Tree) -> bool:
    asked: list[tuple[str, ...]] = []
    answers: list[str] = []
    tools: list[Operation] = []
    for operation in found:
        inside = [operation, *tree.inside(operation)]
        question = find_question(operation, inside)
        answer = find_answer(operation, inside)
        if question is None or (answer is None and all(o.error is None for o in inside)):
            return False
        asked.append(tuple(message.text or str(message.media) for message in question.messages))
        if any(earlier in text for earlier in answers for text in asked[-1]):
            return False
        if answer is not None and len(answer.text) >= _DISTINCTIVE:
            if any(_returned(tool, answer.text) and is_during(operation.span, tool.span) for tool in tools):
                return False
            answers.append(answer.text)
        tools += [o for o in inside if o.kind is OperationKind.TOOL]
    return len(set(asked)) == len(asked)


def _returned(tool: Operation, answer: str) -> bool:
    """Return True if a tool's result has an agent's answer."""
    return tool.tool_call is not None and answer in str(tool.tool_call.result)
