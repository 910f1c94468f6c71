"""A run as numbered steps with their texts, as a judge reads it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from otel_evals._internal.model import Document, Message, Operation, OperationKind, Part, Run, ToolCall
from otel_evals._internal.util.plain import MAX_EVIDENCE, as_text


class RunStep(NamedTuple):
    """An operation of a run, or another text that a judge may read."""

    title: str
    text: str
    """All texts with their names, such as `arguments`. Texts of earlier steps are not repeated."""
    span_id: str | None


def _step(title: str, texts: Mapping[str, str], span_id: str | None = None) -> RunStep:
    text = "\n\n".join(f"{name}:\n{text}" for name, text in texts.items())
    cut = text if len(text) <= MAX_EVIDENCE else f"{text[:MAX_EVIDENCE]} [cut off]"
    return RunStep(title, cut, span_id)


def run_steps(run: Run) -> list[RunStep]:
    """Return a run's operations by start time; without any, its messages and tool calls."""
    if not run.operations:
        return [*_of_fields(run)]
    messages = _NewMessages()
    steps = [*_of_operations(run, messages)]
    # The user's words may stand elsewhere than at an operation.
    asked = messages.of(run.input_messages)[0]
    if asked:
        steps.insert(0, _step("user", {"message": asked}))
    # The output of an operation with others below is left out: no other may have shown the answer.
    if run.output and not messages.shown(run.output):
        steps.append(_step("answer", {"output": run.output}, run.root_span_id))
    return steps


class _NewMessages:
    """Renders messages, without those that earlier lists of messages have shown already."""

    def __init__(self) -> None:
        self._seen: Counter[str] = Counter()

    def of(self, *lists: Sequence[Message]) -> list[str]:
        """Return a text for each list: its new messages. The lists are one sequence of messages."""
        here: Counter[str] = Counter()
        return ["\n".join(self._new(messages, here)) for messages in lists]

    def shown(self, output: str) -> bool:
        return self._seen[f"assistant: {output}"] > 0

    def _new(self, messages: Sequence[Message], here: Counter[str]) -> Iterator[str]:
        for message in messages:
            text = f"{message.role}: {_text(message)}"
            here[text] += 1
            if here[text] > self._seen[text]:  # a word that is said again is new
                self._seen[text] = here[text]
                yield text


def _text(message: Message) -> str:
    return "\n".join(filter(None, map(_part, message.parts)))


def _part(part: Part) -> str:
    if part.kind in ("text", "refusal", "reasoning"):
        return part.text or ""
    if part.media is not None:
        return f"[{part.media.describe()}] {part.text or ''}".rstrip()
    said = as_text(part.data if part.data is not None else part.text or "")
    return f"[{part.kind} {part.name}] {said}" if part.name else f"[{part.kind}] {said}"


def _of_operations(run: Run, messages: _NewMessages) -> Iterator[RunStep]:
    for operation in run.operations:
        texts = _texts(operation, messages, leaf=not run.children.get(operation.span_id))
        texts = {name: text for name, text in texts.items() if text}
        yield _step(_title(operation), texts, operation.span_id)


def _title(operation: Operation) -> str:
    name = operation.name or operation.agent_name or operation.request_model or operation.span.name
    end = operation.span.end_time
    lasted = "" if end is None else f", {(end - operation.span.start_time) / 1e9:.2f} s"
    failed = (
        f", error {operation.error_type or ''}".rstrip() if operation.error or operation.error_type else ""
    )
    return f"{operation.kind.value} {name}{lasted}{failed}"


def _texts(operation: Operation, messages: _NewMessages, *, leaf: bool) -> dict[str, str]:
    """Return the texts of an operation; the output of one with operations below is theirs."""
    if operation.tool_call is not None:
        return _call(operation.tool_call)
    system = operation.system_instructions
    said = messages.of(
        [Message(role="system", parts=(Part(kind="text", text=system),))] if system else (),
        operation.input_messages,
        operation.output_messages if leaf or operation.kind is OperationKind.INFERENCE else (),
    )
    found = dict(zip(("system", "input", "output"), said, strict=True))
    return found | {"documents": _documents(operation.documents), "error": operation.error or ""}


def _call(call: ToolCall) -> dict[str, str]:
    values = {"arguments": call.arguments, "result": call.result, "error": call.error or call.error_type}
    return {name: as_text(value) for name, value in values.items() if value is not None}


def _documents(documents: Sequence[Document]) -> str:
    return "\n\n".join(document.content for document in documents if document.content)


def _of_fields(run: Run) -> Iterator[RunStep]:
    if run.system_instructions:
        yield _step("system", {"system": run.system_instructions})
    for message in (*run.history, *run.input_messages):
        if message.role != "system" and message.parts:
            yield _step(message.role, {"message": _text(message)})
    for call in run.tool_calls:
        yield _step(f"tool {call.name}", _call(call))
    text = _documents(run.documents)
    if text:
        yield _step("retrieval", {"documents": text})
    if run.output:
        yield _step("answer", {"output": run.output})
