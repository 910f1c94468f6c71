"""One span while it is being read, with the messages and other content in its events and log records."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from otel_evals.model import Availability, Message, SpanEvent, SpanRecord, ToolCall
from otel_evals_instrumentation._internal.readers.envelopes import first_choice, spoken
from otel_evals_instrumentation._internal.readers.messages import read_message, read_messages
from otel_evals_instrumentation._internal.readers.parts import join_chunks
from otel_evals_instrumentation._internal.readers.values import (
    MASKS,
    first_present,
    first_text,
    is_masked,
    listed,
    mapping,
    parse,
    unflatten,
    unquoted,
)
from otel_evals_instrumentation._internal.readers.vocabulary import first_count, usage_in, words

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


# --- A span with its attributes by field ---


_DETAILS = frozenset(
    ("gen_ai.client.inference.operation.details", "gen_ai.content.prompt", "gen_ai.content.completion")
)
_MESSAGES = frozenset(
    words("prompt choice system.message user.message assistant.message tool.message", "gen_ai.")
)
_NOTHING = frozenset(("null", "None"))
"""No value, in JSON and in Python."""
SPECIAL = MASKS | frozenset('"nN')
"""First characters of texts that may be masks, quoted or no value."""
_METADATA = (
    ("agent_name", ("lc_agent_name",)),
    ("user_id", words("langfuse_user_id user_id userId")),
    (
        "conversation_id",
        words("langfuse_session_id session_id sessionId thread_id threadId conversation_id conversationId"),
    ),
)
_NAME = itemgetter(1)
CHECKPOINTS = "langgraph_checkpoint_ns"


class SpanReader(msgspec.Struct, eq=False):
    """One span being read: its attributes by field, and the fields found so far."""

    span: SpanRecord
    convention: str
    attributes: Mapping[str, Any]
    """The span's, and those of its events and logs with details."""
    events: list[tuple[str, Any]]
    """Message events of the span and its logs, as (name, body)."""
    found_at: Mapping[str, tuple[tuple[int, str], ...]]
    """By field: the attributes that may contain it as (rank, name), most trusted first.

    A field with indexed lists has a second entry, its name with `.*`, that includes the lists.
    """
    # msgspec copies an empty default for each instance.
    fields: dict[str, Any] = {}
    noted: dict[str, tuple[str, Availability]] = {}
    """By field of content: the attribute that it came from, and its availability."""

    def note(self, field: str, key: str, availability: Availability = Availability.PRESENT) -> None:
        """Record the attribute that a field came from, and its availability."""
        self.noted[field] = key, availability

    def source_of(self, field: str) -> str | None:
        """Return the attribute that a field came from."""
        return self.noted[field][0] if field in self.noted else None

    def text(self, field: str) -> str | None:
        """Return the most trusted non-empty text among a field's attributes."""
        for _, key in self.found_at.get(field, ()):
            value = self.attributes[key]
            if type(value) is str and value:
                # Most texts need no search for masks or quotes, by their first character.
                if value[0] not in SPECIAL:
                    return value
                if value not in _NOTHING and not is_masked(value):
                    return str(unquoted(value))
            # `str` raises for integers of thousands of digits.
            elif type(value) is int and value.bit_length() <= 64:
                return str(value)
        return None

    def number(self, field: str) -> int | None:
        """Return the most trusted natural number among a field's attributes."""
        keys = self.found_at.get(field)
        return first_count(self.attributes, map(_NAME, keys)) if keys else None

    def mapping(self, key: str) -> dict[str, Any]:
        """Return the JSON object in an attribute, empty if there is none."""
        return mapping(self.attributes.get(key))

    def offer(self, field: str, value: Any) -> None:
        """Set a field that has no value yet, if this is a non-empty text."""
        if isinstance(value, str) and value:
            self.fields.setdefault(field, value)

    def offer_usage(self, counts: Any) -> None:
        """Set the usage if it has no value yet and this object has token counts."""
        usage = usage_in(counts)
        if usage is not None:
            self.fields.setdefault("usage", usage)

    def offer_metadata(self, value: Any) -> None:
        """Set user, conversation and agent that have no value yet from a metadata object."""
        metadata = mapping(value)
        for field, names in _METADATA:
            self.offer(field, first_text(metadata, names))
        self.offer("agent_name", agent_around(metadata.get(CHECKPOINTS)))

    def set_messages(self, side: str, messages: tuple[Message, ...], key: str) -> None:
        """Set the messages of the input or the output, and record the attribute that they came from."""
        self.fields[side + "_messages"] = messages
        self.note(side, key)

    def offer_name(self, name: Any) -> None:
        """Name a tool and its call, if this is a non-empty text."""
        if isinstance(name, str) and name:
            self.fields["name"] = name
            self.change_call(name=name)

    def change_call(self, **changes: Any) -> ToolCall:
        """Change the call of a tool's span, and return it; None is no change."""
        given = {name: value for name, value in changes.items() if value is not None}
        call: ToolCall = replace(self.fields["tool_call"], **given)
        self.fields["tool_call"] = call
        return call

    def rewrite_messages(self, rewrite: Callable[[Message], Message]) -> None:
        """Replace each input and output message."""
        for side in ("input_messages", "output_messages"):
            if side in self.fields:
                self.fields[side] = tuple(map(rewrite, self.fields[side]))

    def with_lists(self, field: str) -> list[tuple[str, Any]]:
        """Return a field's attributes as (name, value), with lists spread over indexed keys."""
        found = []
        for _, key in self.found_at.get(field + ".*") or self.found_at.get(field, ()):
            is_list = key.endswith(".*")
            found.append((key, unflatten(self.attributes, key[:-2]) if is_list else self.attributes[key]))
        return found


def agent_around(checkpoints: Any) -> str | None:
    """Return the node of the graph around a LangGraph subgraph, from `support:1f2|model:2a9`."""
    *around, _ = checkpoints.split("|") if isinstance(checkpoints, str) else [""]
    return around[-1].partition(":")[0] if around else None


def read_events(span: SpanRecord) -> tuple[Mapping[str, Any], list[tuple[str, Any]]]:
    """Return attributes and message events; the content of detail events is read as attributes."""
    added: dict[str, Any] = {}
    events: list[tuple[str, Any]] = []
    for event in (*span.events, *span.logs):
        name: Any = event.name
        if name not in _MESSAGES | _DETAILS:
            name = str(event.attributes.get("event.name"))
        if name in _DETAILS:
            added.update(event.attributes)
            added.update(mapping(event.body))
        elif name in _MESSAGES:
            events.append((name, _body(event)))
    added.update(content_lines(span.logs))
    return {**added, **span.attributes} if added else span.attributes, events


def exceptions_of(span: SpanRecord) -> Iterator[SpanEvent]:
    """Yield the exceptions of a span, recorded as events or as log records."""
    return (event for event in (*span.events, *span.logs) if event.name == "exception")


def has_dropped(span: SpanRecord) -> bool:
    """Return True if a limit dropped attributes of a span, or of its events and log records."""
    return span.dropped_attributes > 0 or any(e.dropped_attributes > 0 for e in (*span.events, *span.logs))


def _body(event: SpanEvent) -> Any:
    """Return a log's body, or a span event's attributes, or the JSON in one of them."""
    if event.body is not None:
        return event.body
    content = event.attributes.get("gen_ai.event.content", event.attributes.get("event_body"))
    return dict(event.attributes) if content is None else content
