"""Messages that are span events or log records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from otel_evals.model import Message
from otel_evals_instrumentation._internal.readers.envelopes import first_choice, is_data
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import join_chunks
from otel_evals_instrumentation._internal.readers.single_message import read_message
from otel_evals_instrumentation._internal.readers.values import is_masked, parse

_EVENTS = {
    "gen_ai.prompt": "user",  # Semantic Kernel's whole prompt
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}

_UNFINISHED = (None, "", "FINISH_REASON_UNSPECIFIED")


def event_name(event: dict[str, Any]) -> str:
    """Return the name of an event in a list, by its form if it has none."""
    name = event.get("event.name")
    if isinstance(name, str):
        return name
    role = event.get("role")
    return "gen_ai.choice" if "message" in event else f"gen_ai.{role}.message"


def event_messages(events: Iterable[tuple[str, Any]]) -> tuple[list[Message], list[Message]]:
    """Return input and output messages of events such as `gen_ai.choice`, each a name and a body."""
    inputs: list[Message] = []
    outputs: list[Message] = []
    choices: list[Any] = []
    for name, body in events:
        role = _EVENTS.get(name)
        if role is not None:
            parsed = parse(body)
            if role == "tool" and not inputs and isinstance(parsed, dict) and parsed.get("role") == "user":
                role = "user"  # no tool could have been called yet
            inputs.extend(_event(parsed, role))
        elif name == "gen_ai.choice":
            choices.append(parse(body))
    streamed = _are_chunks(choices)
    for choice in choices if streamed else first_choice(choices):
        outputs.extend(_event(choice, "assistant"))
    return inputs, [join_chunks(outputs)] if streamed and outputs else outputs


def _are_chunks(choices: list[Any]) -> bool:
    """Return True for the chunks of a streamed response, of which only the last one says how it finished."""
    ends = [isinstance(choice, dict) and choice.get("finish_reason") not in _UNFINISHED for choice in choices]
    return len(ends) > 1 and ends[-1] and not any(ends[:-1])


def _spoken(value: Any) -> Any:
    """Decode a text that is JSON of messages; return other texts unchanged."""
    parsed = parse(value)
    return value if is_data(parsed) else parsed


def _event(body: Any, role: str) -> tuple[Message, ...]:
    """Return the messages of an event's body."""
    if not isinstance(body, dict):
        return read_messages(body, role)
    message = _spoken(body.get("message"))
    if isinstance(message, dict):
        calls = message.get("tool_calls") or body.get("tool_calls")
        body = {**message, "tool_calls": calls} if calls else message
    elif message is not None:
        body = {**body, "content": message}
    content = _spoken(body.get("content"))
    if is_masked(content):
        content = None
    listed = content if role == "tool" and isinstance(content, (list, tuple)) else (None,)
    if all(isinstance(item, dict) and "toolResult" in item for item in listed):
        return read_messages(content, role)
    # The event's name has the right role: Vertex AI's bodies call a tool's result the user's.
    return (read_message({**body, "role": role, "content": content}, role),)
