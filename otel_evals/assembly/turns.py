"""What this turn asked and what was answered, found in the operations of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from otel_evals.model import Message, Operation, OperationKind

__all__ = ["Answer", "Question", "answer_of", "find_answer", "find_question", "this_turn", "turn_start"]

_TELLERS = (OperationKind.AGENT, OperationKind.WORKFLOW, OperationKind.INFERENCE)


@dataclass(frozen=True, slots=True)
class Question:
    """What a turn brought in, and what was said before it."""

    operation: Operation
    messages: tuple[Message, ...]
    history: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer and the operation that tells it."""

    operation: Operation
    messages: tuple[Message, ...]
    text: str


def turn_start(operation: Operation) -> int:
    """Index in `input_messages` where this turn begins: at the last message in which a user says a word.

    Where no user has a message at all, as when one agent hands over to the next, everything is of this turn.
    """
    messages = operation.input_messages
    told = operation.new_messages_from
    if told is not None and 0 <= told < len(messages):
        return told
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user" and messages[index].text:
            return index
    return len(messages) if any(map(_is_users, messages)) else 0


def _is_users(message: Message) -> bool:
    """Whether a user's message is more than results handed back; its words may have been left out."""
    return message.role == "user" and not any(part.kind == "tool_result" for part in message.parts)


def this_turn(outputs: Sequence[Message]) -> Sequence[Message]:
    """Outputs without what some frameworks repeat before them: all up to the user's last words."""
    for index in range(len(outputs) - 1, -1, -1):
        if outputs[index].role == "user" and outputs[index].text:
            return outputs[index + 1 :]
    return outputs


def _question(operation: Operation) -> Question | None:
    messages = operation.input_messages
    if not messages:
        return None
    start = turn_start(operation)
    asked: list[Message] = []
    for message in messages[start:]:
        if message.role not in ("user", "system"):
            break
        if message.role == "user" and message.text:
            asked.append(message)
    if not asked:
        return None
    history = tuple(m for m in messages[:start] if m.role != "system")
    return Question(operation, tuple(asked), history)


def find_question(root: Operation, operations: Sequence[Operation]) -> Question | None:
    """The root's own input; else that of the first operation inside that tells one."""
    tellers = [root, *(o for o in operations if o.kind in _TELLERS and o is not root)]
    question = next(filter(None, map(_question, tellers)), None)
    if question is None or question.history:
        return question
    return _with_history(question, tellers)


def _with_history(question: Question, tellers: Iterable[Operation]) -> Question:
    """Agents often tell only the turn; the first model call inside them was given the history too."""
    said = [m.text for m in question.messages]
    for operation in tellers:
        if operation.kind is OperationKind.INFERENCE and operation.input_messages:
            other = _question(operation)
            if other is not None and other.history and [m.text for m in other.messages] == said[-1:]:
                return Question(question.operation, question.messages, other.history)
            return question
    return question


def answer_of(operation: Operation) -> str | None:
    """The text that ends an operation's output; None when it ends in a tool call or with nothing."""
    if not operation.output_messages:
        return None
    last = operation.output_messages[-1]
    if last.role in ("user", "tool", "system"):
        return None
    if operation.kind is OperationKind.INFERENCE and any(part.kind == "tool_call" for part in last.parts):
        return None
    return last.text or None


def find_answer(root: Operation, operations: Sequence[Operation]) -> Answer | None:
    """The root's own output; else that of whichever operation inside ended last and tells one."""
    text = answer_of(root)
    if text is not None:
        return Answer(root, tuple(this_turn(root.output_messages)), text)
    order = {o.span_id: index for index, o in enumerate(operations)}
    ended = sorted(
        (o for o in operations if o.kind in _TELLERS and o is not root),
        key=lambda o: (-(o.span.end_time or o.span.start_time), order[o.span_id]),
    )
    for operation in ended:
        text = answer_of(operation)
        if text is not None:
            return Answer(operation, operation.output_messages[-1:], text)
        if operation.kind is OperationKind.INFERENCE and (operation.output_messages or operation.error):
            return None
    return None
