"""Finds the question and the answer of a turn in the operations of its run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from otel_evals._internal.model import Availability, Message, Operation, OperationKind, Part

_HAVE_MESSAGES = (OperationKind.AGENT, OperationKind.WORKFLOW, OperationKind.INFERENCE)


@dataclass(frozen=True, slots=True)
class Question:
    """A turn's input, and the messages before it."""

    operation: Operation
    messages: tuple[Message, ...]
    history: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The final answer and the operation that recorded it."""

    operation: Operation
    messages: tuple[Message, ...]
    text: str


def turn_start(operation: Operation) -> int:
    """Index in `input_messages` where this turn begins: the last user message with text.

    Without any user message, as when one agent hands over to another, all messages belong to this turn.
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
    """Whether a message is from a user, not only tool results; its text may not have been recorded."""
    return message.role == "user" and not any(part.kind == "tool_result" for part in message.parts)


def _own_call_ids(operations: Iterable[Operation]) -> frozenset[str]:
    """Ids of the tool calls that these operations made or asked for."""
    made = {o.tool_call.id for o in operations if o.tool_call is not None and o.tool_call.id is not None}
    asked = {
        part.tool_call_id
        for o in operations
        for message in o.output_messages
        for part in message.parts
        if part.kind == "tool_call" and part.tool_call_id is not None
    }
    return frozenset(made | asked)


def given_this_turn(
    operation: Operation, operations: Iterable[Operation], start: int | None = None
) -> Sequence[Message]:
    """The input messages of an operation that belong to this turn.

    A truncated list may contain earlier turns only. It is trusted if the tool calls that follow the question
    in it are calls of this run.
    """
    given = operation.input_messages[turn_start(operation) if start is None else start :]
    if operation.availability.get("input") is not Availability.TRUNCATED:
        return given
    asked = next((n for n, m in enumerate(given) if m.role not in ("user", "system")), len(given))
    after = given[asked:]
    if not after:
        return given
    own = _own_call_ids(operations)
    calls = [part for message in after for part in message.parts if part.kind == "tool_call"]
    return given if calls and all(part.tool_call_id in own for part in calls) else ()


def this_turn(outputs: Sequence[Message]) -> Sequence[Message]:
    """Output messages without the input, up to the last user message, that some frameworks repeat there."""
    for index in range(len(outputs) - 1, -1, -1):
        if outputs[index].role == "user" and outputs[index].text:
            return outputs[index + 1 :]
    return outputs


def _question(operation: Operation, operations: Iterable[Operation]) -> Question | None:
    messages = operation.input_messages
    if not messages:
        return None
    start = turn_start(operation)
    asked: list[Message] = []
    for message in given_this_turn(operation, operations, start):
        if message.role not in ("user", "system"):
            break
        if message.role == "user" and message.text:
            asked.append(message)
    if not asked:
        return None
    history = tuple(m for m in messages[:start] if m.role != "system")
    return Question(operation, tuple(asked), history)


def find_question(root: Operation, operations: Sequence[Operation]) -> Question | None:
    """The question in the root's input, or else in that of the first operation that has one.

    What a workflow was called with is an object, which is the question only where nothing inside tells one.
    """
    candidates = [root, *(o for o in operations if o.kind in _HAVE_MESSAGES and o is not root)]
    questions = filter(None, (_question(o, operations) for o in candidates))
    question = next(questions, None)
    if question is None or question.history:
        return question
    if root.kind is OperationKind.WORKFLOW and question.operation is root and _is_object(question):
        question = next(questions, question)
    return _with_history(question, candidates, operations)


def _is_object(question: Question) -> bool:
    """Whether a question is an object that was written down as JSON."""
    text = question.messages[-1].text
    return text[:2] == '{"' and text[-1:] == "}"


def _with_history(
    question: Question, candidates: Iterable[Operation], operations: Iterable[Operation]
) -> Question:
    """Add the history from the first model call's input: agents often record only the turn."""
    said = [m.text for m in question.messages]
    for operation in candidates:
        if operation.kind is OperationKind.INFERENCE and operation.input_messages:
            other = _question(operation, operations)
            if other is not None and other.history and [m.text for m in other.messages] == said[-1:]:
                return Question(question.operation, question.messages, other.history)
            return question
    return question


def answer_of(operation: Operation) -> str | None:
    """The text at the end of an operation's output; None if it ends with a tool call or is empty."""
    if not operation.output_messages:
        return None
    last = operation.output_messages[-1]
    if last.role in ("user", "tool", "system"):
        return None
    if operation.kind is OperationKind.INFERENCE and waiting_calls(last):
        return None
    return _closing_text(last) or None


def waiting_calls(message: Message) -> list[Part]:
    """A message's tool calls without a result in the same message, which provider-run tools have."""
    results = [part for part in message.parts if part.kind == "tool_result"]
    answered = {part.tool_call_id for part in results if part.tool_call_id is not None}
    unnamed = sum(part.tool_call_id is None for part in results)
    calls = [p for p in message.parts if p.kind == "tool_call" and p.tool_call_id not in answered]
    return calls[unnamed:]


def _closing_text(message: Message) -> str:
    """The text after the last tool result in a message; all of its text if there is none."""
    ends = [index for index, part in enumerate(message.parts) if part.kind == "tool_result"]
    if not ends:
        return message.text
    after = replace(message, parts=message.parts[ends[-1] + 1 :]).text
    return after or message.text


def find_answer(root: Operation, operations: Sequence[Operation]) -> Answer | None:
    """The answer in the root's output, or else in that of the operation that ended last and has one."""
    text = answer_of(root)
    if text is not None:
        return Answer(root, tuple(this_turn(root.output_messages)), text)
    order = {o.span_id: index for index, o in enumerate(operations)}
    ended = sorted(
        (o for o in operations if o.kind in _HAVE_MESSAGES and o is not root),
        key=lambda o: (-(o.span.end_time or o.span.start_time), order[o.span_id]),
    )
    for operation in ended:
        text = answer_of(operation)
        if text is not None:
            return Answer(operation, operation.output_messages[-1:], text)
        if operation.kind is OperationKind.INFERENCE and (operation.output_messages or operation.error):
            return None
    return None
