"""What a span has in events and log records: messages, content, exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from otel_evals.model import Message, SpanEvent, SpanRecord
from otel_evals_instrumentation._internal.readers.envelopes import first_choice, spoken
from otel_evals_instrumentation._internal.readers.messages import read_message, read_messages
from otel_evals_instrumentation._internal.readers.parts import join_chunks
from otel_evals_instrumentation._internal.readers.values import (
    first_present,
    first_text,
    is_masked,
    listed,
    mapping,
    parse,
)
from otel_evals_instrumentation._internal.readers.vocabulary import words

_DETAILS = frozenset(
    words("client.inference.operation.details content.prompt content.completion usage", "gen_ai.")
)
_MESSAGES = frozenset(
    words("prompt choice system.message user.message assistant.message tool.message", "gen_ai.")
)


def read_events(span: SpanRecord) -> tuple[Mapping[str, Any], list[tuple[str, Any]]]:
    """Return attributes and message events; the content of detail events is read as attributes."""
    added: dict[str, Any] = {}
    events: list[tuple[str, Any]] = []
    for name, event in named_events(span):
        if name in _DETAILS:
            added.update(event.attributes)
            added.update(mapping(event.body))
        elif name in _MESSAGES:
            events.append((name, _body(event)))
    added.update(content_lines(span.logs))
    return {**added, **span.attributes} if added else span.attributes, events


def named_events(span: SpanRecord) -> Iterator[tuple[str, SpanEvent]]:
    """Yield the events and then the log records of a span, each with its name, often in an attribute."""
    return ((str(e.attributes.get("event.name") or e.name), e) for e in (*span.events, *span.logs))


def exceptions_of(span: SpanRecord) -> Iterator[SpanEvent]:
    """Yield the exceptions of a span, recorded as events or as log records."""
    return (event for event in (*span.events, *span.logs) if event.name == "exception")


def exception_of(span: SpanRecord) -> tuple[str | None, str | None]:
    """Return message and type of a span's first exception."""
    raised = next(exceptions_of(span), None)
    found = raised.attributes if raised is not None else {}
    return first_text(found, ("exception.message",)), first_text(found, ("exception.type",))


def has_dropped(span: SpanRecord) -> bool:
    """Return True if a limit dropped attributes of a span, an event or a log record."""
    return span.dropped_attributes > 0 or any(e.dropped_attributes > 0 for e in (*span.events, *span.logs))


def _body(event: SpanEvent) -> Any:
    """Return a log's body, or a span event's attributes, or the JSON in one of them."""
    if event.body is not None:
        return event.body
    content = event.attributes.get("gen_ai.event.content", event.attributes.get("event_body"))
    return dict(event.attributes) if content is None else content


# --- Messages that are span events or log records ---


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
    by_form = "gen_ai.choice" if "message" in event else f"gen_ai.{event.get('role')}.message"
    return str(event.get("event.name", by_form))


def event_messages(events: Iterable[tuple[str, Any]]) -> tuple[list[Message], list[Message]]:
    """Return input and output messages of events such as `gen_ai.choice`, each a name and a body."""
    inputs: list[Message] = []
    outputs: list[Message] = []
    choices: list[Any] = []
    for name, body in events:
        role = _EVENTS.get(name)
        if role is not None:
            parsed = parse(body)
            if not inputs and mapping(parsed).get("role") == "user":
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
    return len(ends) > 1 and not any(ends[:-1])


def _event(body: Any, role: str) -> tuple[Message, ...]:
    """Return the messages of an event's body."""
    if not isinstance(body, dict):
        return read_messages(body, role)
    message = spoken(body.get("message"))
    if isinstance(message, dict):
        calls = message.get("tool_calls") or body.get("tool_calls")
        body = {**message, "tool_calls": calls}
    elif message is not None:
        body = {**body, "content": message}
    content = spoken(body.get("content"))
    if is_masked(content):
        content = None
    # The event's name has the right role: Vertex AI's bodies call a tool's result the user's.
    return (read_message({**body, "role": role, "content": content}, role),)


def messages_of(value: Any, side: str, role: str) -> tuple[Message, ...]:
    """Return the messages of a value, which may be a list of events."""
    if not _are_events(value):
        return read_messages(value, role)
    asked, said = event_messages((event_name(v), v) for v in value)
    end = len(asked)
    while end and not said and asked[end - 1].role == "assistant":
        end -= 1
    return tuple(asked[:end]) if side == "input" else tuple(said or asked[end:])


def _are_events(value: Any) -> bool:
    """Return True for a list of events, which have names or end with a choice."""
    if not isinstance(value, (list, tuple)):
        return False
    ends = [v for v in (*value[:1], *value[-1:]) if isinstance(v, dict)]
    return any("event.name" in v or v.keys() >= {"index", "message"} for v in ends)


# --- Content in log records ---


_ASKED = "Prompt Content"
_ANSWERED = "Completion"
_TITLES = ("Chat Model ", "Chat Client ", "Vector Store Query Response")
# Quotes in the texts are not escaped: an entry ends where the next role begins.
_ENTRY = re.compile(
    r'(?:^|, )"(system|user|assistant|tool)":"(.*?)"(?=$|, "(?:system|user|assistant|tool)":")', re.DOTALL
)


def content_lines(logs: Iterable[SpanEvent]) -> dict[str, Any]:
    """Return the content of log records, under the attribute names for the same content."""
    found: dict[str, Any] = {}
    for log in logs:
        text = log.body
        if isinstance(text, dict):
            found.update(_conversation(text))
        if not isinstance(text, str) or not text.startswith(_TITLES):
            continue
        title, _, lines = text.partition(":\n")
        if title == _TITLES[2]:
            found["db.vector.query.response.documents"] = [{"content": t} for t in _texts(lines)]
        elif title.endswith(_ANSWERED):
            found["gen_ai.output.messages"] = [_message("assistant", t) for t in _texts(lines)]
        elif title == "Chat Client " + _ASKED:
            found["gen_ai.input.messages"] = [_message(role, t) for role, t in _ENTRY.findall(lines[1:-1])]
        else:
            # The texts have no roles; only the last one is known to be the user's.
            found["gen_ai.input.messages"] = [_message("user", t) for t in _texts(lines)[-1:]]
    return found


def _conversation(body: dict[str, Any]) -> dict[str, Any]:
    """Return the messages of a body such as `{"input": {"messages": [...]}, "output": {...}}`."""
    found = {}
    for side in ("input", "output"):
        messages = listed(mapping(body.get(side)).get("messages"))
        if messages and all(isinstance(m, dict) for m in messages):
            found[f"gen_ai.{side}.messages"] = [_unwrapped(m) for m in messages]
    return found


def _unwrapped(message: dict[str, Any]) -> dict[str, Any]:
    """Unwrap a message whose content has the event's attributes."""
    content = first_present(mapping(message.get("content")), ("content", "message"))
    return message if content is None else {**message, "content": parse(content)}


def _texts(lines: str) -> list[str]:
    """Return the texts of a list such as `["one", "two"]` with unescaped quotes, or the only text."""
    if not (lines[:1] == "[" and lines[-1:] == "]"):
        return [lines]
    inside = lines[2:-2] if lines[1] == lines[-2] == '"' else ""
    return [text for text in inside.split('", "') if text and text != "null"]


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}
