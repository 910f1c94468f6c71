"""Content beside the messages: system instructions, definitions of tools; and what is missing of it all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from otel_evals.model import Availability, Message
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import read_parts
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader, has_dropped
from otel_evals_instrumentation._internal.readers.values import is_masked, parse

_LONGEST_CACHED = 50_000
"""Do not cache longer definitions."""
_RECORDED = (Availability.PRESENT, Availability.TRUNCATED)
_CALLS = ("tool_call", "tool_result")


def read_system(reader: SpanReader, inputs: tuple[Message, ...], outputs: tuple[Message, ...] = ()) -> None:
    """Read the system instructions from attributes of their own, or else from messages.

    Some agents have them only in their output, with the whole conversation.
    """
    for _, key in reader.found_at.get("system", ()):
        value = reader.attributes[key]
        if is_masked(value):
            continue
        parsed = parse(value)
        if isinstance(parsed, dict):
            texts = [m.text for m in read_messages(parsed, "system")]
        else:
            texts = [part.text or "" for part in read_parts(parsed)]
        if any(texts):
            reader.fields["system_instructions"] = "\n\n".join(filter(None, texts))
            reader.note("system", key)
            return
    for side, messages in (("input", inputs), ("output", outputs)):
        texts = [m.text for m in messages if m.role == "system"]
        if any(texts):
            reader.fields["system_instructions"] = "\n\n".join(filter(None, texts))
            reader.noted["system"] = reader.noted[side]
            return


def read_definitions(reader: SpanReader) -> None:
    """Read the definitions of the tools that a model may call."""
    for _, key in reader.found_at.get("definitions", ()):
        value = reader.attributes[key]
        cached = type(value) is str and len(value) <= _LONGEST_CACHED
        definitions = _cached_definitions(value) if cached else _definitions(value)
        if definitions is not None:
            reader.fields["tool_definitions"] = definitions
            return


def _definitions(value: Any) -> tuple[Mapping[str, Any], ...] | None:
    definitions = parse(value)
    if not isinstance(definitions, (list, tuple)):
        return None
    return tuple(d for d in map(parse, definitions) if isinstance(d, dict))


_cached_definitions = lru_cache(maxsize=64)(_definitions)
"""Cached, because an application's model calls repeat the same tools."""


def take_answer(reader: SpanReader) -> None:
    """Move the assistant's messages at the end of an agent's input to its output."""
    given = reader.fields["input_messages"]
    end = len(given)
    while end and given[end - 1].role == "assistant":
        end -= 1
    if end < len(given) and not reader.fields["output_messages"]:
        reader.fields["input_messages"], reader.fields["output_messages"] = given[:end], given[end:]
        reader.note("output", reader.source_of("input") or "events")


def unwrap_state(reader: SpanReader) -> None:
    """Replace a workflow's state in a user's message by the messages in it."""
    messages = reader.fields["input_messages"]
    if len(messages) == 1 and messages[0].role == "user" and (text := messages[0].text)[:1] == "{":
        if any(value is text for value in reader.attributes.values()):
            return  # an attribute without messages
        state = parse(text)
        if isinstance(state, dict):
            reader.fields["input_messages"] = read_messages(state) or messages


def availability_of(reader: SpanReader, expected: Iterable[str]) -> dict[str, Availability]:
    """Return the availability of content: a message without content is empty if the other side has some.

    Without any on both sides, content capture is off. Content that may have been dropped with attributes
    counts as truncated.
    """
    found: dict[str, Availability] = {}
    for name, (_, availability) in reader.noted.items():
        found[name] = availability
    for side, other in (("input", "output"), ("output", "input")):
        if found.get(side) is Availability.EMPTY:
            calls = any(p.kind in _CALLS for m in reader.fields.get(f"{side}_messages", ()) for p in m.parts)
            is_on = found.get(other) in _RECORDED
            without = Availability.PRESENT if calls else Availability.EMPTY
            found[side] = without if is_on else Availability.CAPTURED_OFF
    dropped = None
    for name in expected:
        if found.get(name) not in _RECORDED:
            dropped = has_dropped(reader.span) if dropped is None else dropped
            if dropped:
                found[name] = Availability.TRUNCATED
    return found
