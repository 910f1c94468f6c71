"""Splits traces in which an application's span groups several invocations: each of them is a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from otel_evals._internal.model import Operation, OperationKind
from otel_evals._internal.read.question import find_answer, find_question
from otel_evals._internal.read.tree import descendants

_INVOCATIONS = (OperationKind.AGENT, OperationKind.WORKFLOW)
_TELLING = 8
"""Characters of an answer that a later question does not contain by chance."""


def invocations_in(
    root: Operation, operations: Mapping[str, Operation], below: Mapping[str, Sequence[str]]
) -> list[Operation]:
    """The invocations that a root merely groups, or else the root itself.

    Invocations are separate if each has a question of its own, and an answer or an error. Agents that hand
    over to each other have the same question, or ask with what the one before them answered.
    """
    if not root.groups_invocations or root.input_messages or root.output_messages:
        return [root]
    found: list[Operation] = []
    stack = list(reversed(below.get(root.span_id, ())))
    while stack:
        operation = operations[stack.pop()]
        if operation.kind in _INVOCATIONS:
            found.append(operation)
        elif operation.kind is OperationKind.OTHER:
            stack.extend(reversed(below.get(operation.span_id, ())))
        else:
            return [root]  # the root does work itself
    return found if len(found) > 1 and _are_apart(found, operations, below) else [root]


def _are_apart(
    found: Iterable[Operation], operations: Mapping[str, Operation], below: Mapping[str, Sequence[str]]
) -> bool:
    asked: list[tuple[str, ...]] = []
    answers: list[str] = []
    for operation in found:
        inside = [operation, *descendants(operation, operations, below)]
        question = find_question(operation, inside)
        answer = find_answer(operation, inside)
        if question is None or (answer is None and all(o.error is None for o in inside)):
            return False
        asked.append(tuple(message.text for message in question.messages))
        if any(earlier in text for earlier in answers for text in asked[-1]):
            return False
        if answer is not None and len(answer.text) >= _TELLING:
            answers.append(answer.text)
    return len(set(asked)) == len(asked)
