"""Finds a turn's question and answer in the operations of the run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, dropwhile, takewhile
from typing import Any

from msgspec.structs import replace

from otel_evals._internal.model import Availability, Message, Operation, OperationKind, Part
from otel_evals._internal.model.finish_reasons import finish_reason
from otel_evals._internal.model.operations import end_of, model_calls

HAVE_MESSAGES = (OperationKind.AGENT, OperationKind.WORKFLOW, OperationKind.INFERENCE)
_CONFIRMED = re.compile(r"Returning structured response: |Successfully validated \S+ structured output$")
"""Result of a tool named after the form of an answer, in LangChain and in Strands."""


@dataclass(frozen=True, slots=True)
class Question:
    """A turn's input, and the messages before it."""

    operation: Operation
    messages: tuple[Message, ...]
    history: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    operation: Operation
    messages: tuple[Message, ...]
    text: str
    """Empty for an answer that has media only, or is known to be empty."""

    @property
    def said(self) -> bool:
        """True unless the answer is known to be empty."""
        return bool(self.text or any(message.media for message in self.messages))


def parts_of(messages: Iterable[Message], *kinds: str) -> list[Part]:
    """Return the parts of these kinds in messages."""
    return [part for message in messages for part in message.parts if part.kind in kinds]


def says(message: Message) -> bool:
    """Return True for a message with a text, an image or a sound."""
    return bool(message.text or message.media)


def asks(messages: Sequence[Message], index: int) -> bool:
    """Return True for a user's message with content, other than the result of an action."""
    return messages[index].role == "user" and says(messages[index]) and not is_observation(messages, index)


def is_observation(messages: Sequence[Message], index: int) -> bool:
    """Return True for the result of an action that a model asked for in words, as ReAct's agents do."""
    before = messages[max(0, index - 1) : index]
    return messages[index].text.startswith("Observation:") and any("Action:" in m.text for m in before)


def turn_start(operation: Operation) -> int:
    """Return the index in `input_messages` of this turn's start: the last user message that says something.

    Without any user message, as when one agent hands over to another, all messages belong to this turn.
    """
    messages = operation.input_messages
    start = operation.new_messages_from
    if start is not None and 0 <= start < len(messages):
        return start
    for index in range(len(messages) - 1, -1, -1):
        if asks(messages, index):
            return index
    # A user's message without tool results is a question whose text was not recorded.
    has_question = any(m.role == "user" and not parts_of((m,), "tool_result") for m in messages)
    return len(messages) if has_question else 0


def _own_call_ids(operations: Iterable[Operation]) -> frozenset[str | None]:
    made = (o.tool_call.id for o in operations if o.tool_call is not None)
    asked = (part.tool_call_id for o in operations for part in parts_of(o.output_messages, "tool_call"))
    return frozenset((*made, *asked)) - {None}


def _is_prompt(message: Message) -> bool:
    return message.role in ("user", "system")


def given_this_turn(operation: Operation, operations: Iterable[Operation]) -> Sequence[Message]:
    """Return the input messages of an operation that belong to this turn.

    A truncated list may contain earlier turns only. It is trusted if the tool calls that follow the question
    in it are calls of this run.
    """
    given = operation.input_messages[turn_start(operation) :]
    if operation.availability.get("input") is not Availability.TRUNCATED:
        return given
    after = list(dropwhile(_is_prompt, given))
    if not after:
        return given
    calls = {part.tool_call_id for part in parts_of(after, "tool_call")}
    return given if calls and calls <= _own_call_ids(operations) else ()


def this_turn(outputs: Sequence[Message]) -> Sequence[Message]:
    """Return output messages without the input, which some frameworks repeat there."""
    for index in range(len(outputs) - 1, -1, -1):
        if asks(outputs, index):
            return outputs[index + 1 :]
    return outputs


def _question(operation: Operation, operations: Iterable[Operation]) -> Question | None:
    messages = operation.input_messages
    prompt = takewhile(_is_prompt, given_this_turn(operation, operations))
    asked = [message for message in prompt if message.role == "user" and says(message)]
    if not asked or (messages[0].role == "unknown" and not _ends_with_question(operation, operations)):
        return None
    history = tuple(m for m in messages[: turn_start(operation)] if m.role != "system")
    return Question(operation, tuple(asked), history)


def _ends_with_question(call: Operation, operations: Iterable[Operation]) -> bool:
    """Return True if a prompt without roles ends with the user's words, as far as known.

    It does not if it ends with a tool's result, or is the prompt of another call as well: both were cut off.
    """
    text = call.input_messages[-1].text
    others = (o for o in operations if o.kind is OperationKind.INFERENCE and o is not call)
    if any(other.input_messages == call.input_messages for other in others):
        return False
    results = (o.span.attributes.values() for o in operations if o.kind is OperationKind.TOOL)
    return not any(str(value).endswith(text) for value in chain.from_iterable(results))


def find_question(root: Operation, operations: Sequence[Operation]) -> Question | None:
    """Return the question in the root's input, or else in the first operation's that has one.

    An object is the question only if no operation inside has another one.
    """
    candidates = [root, *(o for o in operations if o.kind in HAVE_MESSAGES and o is not root)]
    # A process whose clock is behind was not asked first.
    candidates.sort(key=lambda o: o.span.start_time < root.span.start_time)
    questions = filter(None, (_question(o, operations) for o in candidates))
    question = next(questions, None)
    if question is None or question.history:
        return question
    if _is_state(question, root):
        inside = next((other for other in questions if not _is_state(other, root)), question)
        text, text_inside = question.messages[-1].text, inside.messages[-1].text
        question = inside if text == text_inside or text not in text_inside else question
    return _with_history(question, candidates, operations)


def _is_state(question: Question, root: Operation) -> bool:
    """Return True for an object: a workflow's arguments, or an attribute without messages."""
    text, operation = question.messages[-1].text, question.operation
    if operation is root and root.kind is OperationKind.WORKFLOW:
        return text[:2] == '{"' and text[-1:] == "}"
    return is_data_of(operation, text)


def is_data_of(operation: Operation, text: str | None) -> bool:
    """Return True for an object that is the whole value of an attribute, not a part of a message."""
    if text is None or text[:1] not in ("{", "[") or text[-1:] not in ("}", "]") or text[:2] == '["':
        return False  # a list of texts may be an answer
    return any(value == text for value in operation.span.attributes.values())


def _with_history(
    question: Question, candidates: Iterable[Operation], operations: Iterable[Operation]
) -> Question:
    """Add the history from the first model call's input: agents often record the turn only."""
    said = [m.text for m in question.messages]
    for operation in candidates:
        if operation.kind is OperationKind.INFERENCE and operation.input_messages:
            other = _question(operation, operations)
            if other is not None and other.history and [m.text for m in other.messages] == said[-1:]:
                return Question(question.operation, question.messages, other.history)
            return question
    return question


def confirms_answer(result: Any) -> bool:
    """Return True for the result of a tool whose arguments are the answer."""
    return type(result) is str and _CONFIRMED.match(result) is not None


def answer_of(operation: Operation) -> str | None:
    """Return the text at the end of an operation's output; None if it ends with a tool call.

    The text is empty for an answer with media only, and for one that was recorded and is empty.
    """
    if not operation.output_messages:
        return "" if operation.availability.get("output") is Availability.EMPTY else None
    last = operation.output_messages[-1]
    if last.role in ("user", "tool", "system"):
        return None
    if operation.kind is OperationKind.INFERENCE and waiting_calls(last):
        # After the last call is the text of a model whose SDK ran the tools by itself.
        return None if says_tools(operation) else _text_after("tool_call", last) or None
    text = _text_after("tool_result", last) or last.text
    if confirms_answer(text):  # recorded without the tool's message around it
        return None
    if text.strip():
        return text
    return "" if text or last.media or operation.availability.get("output") is Availability.EMPTY else None


def _text_after(kind: str, message: Message) -> str:
    """Return the text after the last part of a kind; without any, the whole text."""
    for end in range(len(message.parts), 0, -1):
        if message.parts[end - 1].kind == kind:
            return replace(message, parts=message.parts[end:]).text
    return message.text


def says_tools(operation: Operation) -> bool:
    """Return True if a model call or an agent ended by requesting tools, by its finish reason."""
    return "tool_calls" in map(finish_reason, operation.finish_reasons)


def asks_for_tools(call: Operation) -> bool:
    """Return True if a model call ended by requesting tools."""
    return says_tools(call) or any(map(waiting_calls, call.output_messages))


def ends_with_calls(root: Operation) -> bool:
    """Return True if an operation requested tools, whose results will be the input of another run.

    That is a model call without an agent, or an agent with that finish reason: applications that run
    the tools themselves call it again.
    """
    if root.kind is OperationKind.INFERENCE:
        return asks_for_tools(root)
    # An agent may say something next to its calls.
    return (
        root.kind is OperationKind.AGENT
        and says_tools(root)
        and any(map(waiting_calls, root.output_messages[-1:]))
    )


def waiting_calls(message: Message) -> list[Part]:
    """Return a message's tool calls without a result in the same message, as provider-run tools have it."""
    results = [part for part in message.parts if part.kind == "tool_result"]
    answered = {part.tool_call_id for part in results if part.tool_call_id is not None}
    unnamed = sum(part.tool_call_id is None for part in results)
    calls = [p for p in message.parts if p.kind == "tool_call" and p.tool_call_id not in answered]
    return calls[unnamed:]


def _structured(operations: Sequence[Operation]) -> Answer | None:
    """Return the arguments of a tool that a framework calls as the form of its answer."""
    said_so = any(confirms_answer(m.text) for o in operations for m in o.output_messages[-1:])
    for operation in operations:
        messages = (*operation.input_messages, *operation.output_messages)
        confirmed = [p.tool_call_id for p in parts_of(messages, "tool_result") if confirms_answer(p.data)]
        if not confirmed and said_so:
            confirmed = [p.tool_call_id for p in parts_of(operation.output_messages[-1:], "tool_call")]
        for call in parts_of(messages, "tool_call"):
            # Inputs repeat the conversation: earlier confirmations may be of earlier turns.
            if confirmed[-1:] == [call.tool_call_id] and call.data is not None:
                text = json.dumps(call.data, ensure_ascii=False, default=str)
                said = Message(role="assistant", parts=(Part(kind="text", text=text),))
                return Answer(operation, (said,), text)
    return None


def _is_error(text: str, root: Operation, operations: Sequence[Operation]) -> bool:
    """Return True if a framework returned an error as the run's text: a step's, or the last model call's."""
    failed = [o.error for o in operations if o.error is not None]
    if not failed:
        return False
    if root.error is not None and text in failed:
        return True
    last = max(model_calls(operations), key=end_of, default=root)
    return last.error is not None and last is not root and text in last.error


def find_answer(root: Operation, operations: Sequence[Operation]) -> Answer | None:
    """Return the answer in the root's output, or else in the output of the last operation with one.

    A workflow's output that is an object is the answer only if no operation inside has one.
    """
    text = answer_of(root)
    if text and _is_error(text, root, operations):
        text = None
    answer = None if text is None else Answer(root, tuple(this_turn(root.output_messages)), text)
    is_data = root.kind is OperationKind.WORKFLOW and is_data_of(root, text)
    if answer is not None and answer.said and not is_data:
        return answer
    # The latest end first; among equal ends the earliest start, which is the outer span. In another process,
    # what ends after the root has another clock, or goes on after the answer.
    inside = [o for o in operations if o.kind in HAVE_MESSAGES and o is not root]
    end, host = end_of(root), root.span.resource
    inside.sort(key=lambda o: (end_of(o) <= end or o.span.resource == host, end_of(o)), reverse=True)
    # LangGraph's edges return the next step's name.
    steps = {o.span.name for o in operations}
    for operation in inside:
        text = answer_of(operation)
        if text is not None:
            if operation.kind is not OperationKind.WORKFLOW or not (
                is_data_of(operation, text) or text in steps
            ):
                found = Answer(operation, operation.output_messages[-1:], text)
                return found if found.said else answer or _structured((root, *inside)) or found
        elif operation.kind is OperationKind.INFERENCE and (operation.output_messages or operation.error):
            # After a last model call without an answer, earlier texts are no answer.
            return answer or _structured((root, *inside))
    return answer
