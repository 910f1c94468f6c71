"""What went into an operation and what came out: messages, system instructions, tools on offer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Availability, Message, Part
from otel_evals_instrumentation._internal.readers.envelopes import first_choice, is_data
from otel_evals_instrumentation._internal.readers.message_events import event_messages, event_name
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import read_parts, text_of
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.typed_messages import typed_messages
from otel_evals_instrumentation._internal.readers.values import (
    is_masked,
    parse,
    parse_or_mend,
    without_cut_mark,
)

_LONGEST_KNOWN = 50_000
"""Characters of definitions that are worth remembering."""


def read_inputs_outputs(reader: SpanReader) -> None:
    """Read input and output messages, system instructions and tool definitions."""
    inputs = _side(reader, "input", "user")
    outputs = _answer(reader) or _side(reader, "output", "assistant")
    if reader.events and not (inputs and outputs):
        asked, said = event_messages(reader.events)
        inputs = inputs or _from_events(reader, "input", asked)
        outputs = outputs or _from_events(reader, "output", said)
    if outputs and reader.span.status == "ERROR" and _tells_error(reader, outputs[-1].text):
        outputs = ()
        for notes in (reader.availability, reader.sources):
            notes.pop("output", None)
    read_system(reader, inputs)
    reader.fields["input_messages"] = inputs
    reader.fields["output_messages"] = outputs
    if "new_messages_from" in reader.found_at:
        reader.fields["new_messages_from"] = reader.number("new_messages_from")
    for _, key in reader.found_at.get("definitions", ()):
        value = reader.attributes[key]
        known = type(value) is str and len(value) <= _LONGEST_KNOWN
        definitions = _known_definitions(value) if known else _definitions(value)
        if definitions is not None:
            reader.fields["tool_definitions"] = definitions
            break


def _tells_error(reader: SpanReader, text: str) -> bool:
    """Return True if an output repeats the exception of a failed operation."""
    raised = [event.attributes for event in reader.span.events if event.name == "exception"]
    words = [reader.span.status_message, *(event.get("exception.message") for event in raised)]
    if text and text.strip() in words:
        return True
    kinds = [str(event.get("exception.type") or "").rpartition(".")[2] for event in raised]
    return any(kind and re.match(re.escape(kind) + r"\b\s*[(:]", text) for kind in kinds)


def take_answer(reader: SpanReader) -> None:
    """An agent's run whose events end with what the assistant said: that is its answer."""
    given = reader.fields["input_messages"]
    end = len(given)
    while end and given[end - 1].role == "assistant":
        end -= 1
    if end < len(given) and not reader.fields["output_messages"]:
        reader.fields["input_messages"], reader.fields["output_messages"] = given[:end], given[end:]
        reader.note("output", reader.sources["input"].key if "input" in reader.sources else "events")


def unwrap_state(reader: SpanReader) -> None:
    """A workflow is given its state: where that stands in a user's message, take what was asked from it."""
    messages = reader.fields["input_messages"]
    if len(messages) == 1 and messages[0].role == "user" and (text := messages[0].text)[:1] == "{":
        if any(value is text for value in reader.attributes.values()):
            return  # an attribute that was found to hold no messages
        state = parse(text)
        if isinstance(state, dict):
            reader.fields["input_messages"] = read_messages(state) or messages


def _definitions(value: Any) -> tuple[Mapping[str, Any], ...] | None:
    definitions = parse(value)
    if not isinstance(definitions, (list, tuple)):
        return None
    return tuple(d for d in map(parse, definitions) if isinstance(d, dict))


_known_definitions = lru_cache(maxsize=64)(_definitions)
"""An application's model calls offer the same tools time and again."""


def _side(reader: SpanReader, side: str, role: str) -> tuple[Message, ...]:
    """The messages of one side: of the first name that has content, else of the first that is there."""
    if _starts_indexed(reader, side):
        return _first(reader, side, role, reader.with_lists(side))[0]
    recorded = [(rank, key, reader.attributes[key]) for rank, key in reader.found_at.get(side, ())]
    best, told = _first(reader, side, role, recorded)
    return best if told else _first(reader, side, role, reader.with_lists(side), best)[0]


def _starts_indexed(reader: SpanReader, side: str) -> bool:
    """Whether this convention trusts lists spelled out in keys most; else they are looked for last."""
    return bool(getattr(reader.names, side)[0].endswith(".*"))


def _first(
    reader: SpanReader,
    side: str,
    role: str,
    candidates: Iterable[tuple[int, str, Any]],
    best: tuple[Message, ...] = (),
) -> tuple[tuple[Message, ...], bool]:
    """The messages of the first candidate that has content, and whether there was one."""
    for _, key, value in candidates:
        if not _begins_as_json(value) and is_masked(value):
            if not best:
                reader.note(side, key, Availability.CAPTURED_OFF)
            continue
        messages, cut, is_text = _said(reader, value, side, role)
        whole = not is_text and _has_content(messages)
        if whole or (messages and not best):
            cut = cut or (key.endswith(".*") and side == "input" and reader.span.dropped_attributes > 0)
            _note(reader, side, key, whole or is_text, cut)
            best = _cut_off(messages, value) if cut and not key.endswith(".*") else messages
            if whole:
                return best, True
    return best, False


def _said(reader: SpanReader, value: Any, side: str, role: str) -> tuple[tuple[Message, ...], bool, bool]:
    """The messages of an attribute, whether their end is cut off, and whether they are only its JSON as text.

    JSON without messages in it was said as it is, unless another attribute holds messages.
    """
    messages = typed_messages(value)
    if messages is not None and (side == "input" or len(messages) == 1 or _is_invocation(reader)):
        return messages, False, False
    parsed, cut = parse_or_mend(value)
    if side == "output" and type(parsed) is list and len(parsed) > 1 and not _is_invocation(reader):
        parsed = first_choice(parsed)
    messages = _messages(parsed, side, role)
    text = parsed if type(parsed) is str else value
    if not messages and not cut and _begins_as_json(text) and is_data(parse(parsed)):
        return (Message(role=role, parts=(Part(kind="text", text=text),)),), False, True
    return messages, cut, False


def _is_invocation(reader: SpanReader) -> bool:
    """Whether a span is an agent's or a workflow's: what these say one after the other are no choices."""
    return str(reader.attributes.get("gen_ai.operation.name")).startswith("invoke_")


def _begins_as_json(value: Any) -> bool:
    """Whether a value is JSON of messages, which no mask is; most are."""
    return type(value) is str and value[:2] in ("[{", '{"')


def _cut_off(messages: tuple[Message, ...], value: Any) -> tuple[Message, ...]:
    """Messages whose last part lost its end; one more without content where others followed them."""
    *whole, last = messages
    if last.parts and isinstance(value, str) and _ends_in(value, last.parts[-1].text):
        return (*whole, replace(last, parts=(*last.parts[:-1], replace(last.parts[-1], truncated=True))))
    return (*messages, Message(role="unknown"))


def _ends_in(value: str, text: str | None) -> bool:
    """Whether JSON was cut off inside this text."""
    if not text:
        return False
    tails = tuple(json.dumps(text, ensure_ascii=escaped)[1:-1][-20:] for escaped in (True, False))
    return without_cut_mark(value).rstrip("\\").endswith(tails)


def _messages(value: Any, side: str, role: str) -> tuple[Message, ...]:
    """Messages of a value; a list of events, as some keep in one attribute, is told by its names."""
    if not _are_events(value):
        return read_messages(value, role)
    asked, said = event_messages((event_name(v), v) for v in value if isinstance(v, dict))
    end = len(asked)
    while end and not said and asked[end - 1].role == "assistant":
        end -= 1
    return tuple(asked[:end]) if side == "input" else tuple(said or asked[end:])


def _are_events(value: Any) -> bool:
    """Whether a list holds events, told by their names or by a choice among them."""
    if not isinstance(value, (list, tuple)) or not value or not isinstance(value[0], dict):
        return False
    return "event.name" in value[0] or any(
        isinstance(v, dict) and "index" in v and "message" in v and "role" not in v for v in value[-1:]
    )


def _answer(reader: SpanReader) -> tuple[Message, ...]:
    """A final answer that stands in an attribute of its own."""
    for _, key in reader.found_at.get("answer", ()):
        value = reader.attributes[key]
        if value != "" and not is_masked(value):
            reader.note("output", key)
            return (Message(role="assistant", parts=(Part(kind="text", text=text_of(value)),)),)
    return ()


def _from_events(reader: SpanReader, side: str, messages: list[Message]) -> tuple[Message, ...]:
    if messages:
        key = "gen_ai.choice" if side == "output" else "gen_ai.user.message"
        _note(reader, side, key, _has_content(messages), cut=False)
    return tuple(messages)


def _note(reader: SpanReader, side: str, key: str, told: bool, cut: bool) -> None:
    whole = Availability.PRESENT if told else Availability.CAPTURED_OFF
    reader.note(side, key, Availability.TRUNCATED if cut else whole)


def _has_content(messages: Iterable[Message]) -> bool:
    for message in messages:
        for part in message.parts:
            if part.text or part.data or (part.data is not None and part.kind != "tool_call"):
                return True
    return False


def read_system(reader: SpanReader, inputs: tuple[Message, ...]) -> None:
    """Read the system instructions, from attributes of their own or from the messages that went in."""
    for _, key in reader.found_at.get("system", ()):
        value = reader.attributes[key]
        if is_masked(value):
            continue
        parsed = parse(value)
        if isinstance(parsed, dict):
            texts = [m.text for m in read_messages(parsed, "system")]
        else:
            texts = [part.text or "" for part in read_parts(parsed)]
        joined = "\n\n".join(text for text in texts if text)
        if joined:
            reader.fields["system_instructions"] = joined
            reader.note("system", key)
            return
    texts = [m.text for m in inputs if m.role == "system"]
    joined = "\n\n".join(text for text in texts if text)
    if joined:
        reader.fields["system_instructions"] = joined
        reader.sources["system"] = reader.sources["input"]
        reader.availability["system"] = reader.availability["input"]
