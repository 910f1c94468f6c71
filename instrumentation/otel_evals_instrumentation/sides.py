"""What went into an operation and what came out: messages, system instructions, tools on offer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from otel_evals.model import Availability, Message, Part
from otel_evals_instrumentation.events import event_messages
from otel_evals_instrumentation.messages import read_messages
from otel_evals_instrumentation.parts import read_parts, text_of
from otel_evals_instrumentation.reading import Reading
from otel_evals_instrumentation.values import is_masked, parse, parse_or_mend

__all__ = ["open_state", "read_sides"]

_LONGEST_KNOWN = 50_000
"""Characters of definitions that are worth remembering."""


def read_sides(reading: Reading) -> None:
    """Read input and output messages, system instructions and tool definitions."""
    inputs = _side(reading, "input", "user")
    outputs = _answer(reading) or _side(reading, "output", "assistant")
    if reading.events and not (inputs and outputs):
        asked, said = event_messages(reading.events)
        inputs = inputs or _from_events(reading, "input", asked)
        outputs = outputs or _from_events(reading, "output", said)
    _read_system(reading, inputs)
    reading.fields["input_messages"] = inputs
    reading.fields["output_messages"] = outputs
    if "new_messages_from" in reading.found_at:
        reading.fields["new_messages_from"] = reading.number("new_messages_from")
    for _, _, value in reading.found_at.get("definitions", ()):
        known = type(value) is str and len(value) <= _LONGEST_KNOWN
        definitions = _known_definitions(value) if known else _definitions(value)
        if definitions is not None:
            reading.fields["tool_definitions"] = definitions
            break


def open_state(reading: Reading) -> None:
    """A workflow is given its state: where that stands in a user's message, take what was asked from it."""
    messages = reading.fields["input_messages"]
    if len(messages) == 1 and messages[0].role == "user" and (text := messages[0].text)[:1] == "{":
        state = parse(text)
        if isinstance(state, dict):
            reading.fields["input_messages"] = read_messages(state) or messages


def _definitions(value: Any) -> tuple[Mapping[str, Any], ...] | None:
    definitions = parse(value)
    if not isinstance(definitions, (list, tuple)):
        return None
    return tuple(d for d in map(parse, definitions) if isinstance(d, dict))


_known_definitions = lru_cache(maxsize=64)(_definitions)
"""An application's model calls offer the same tools time and again."""


def _side(reading: Reading, side: str, role: str) -> tuple[Message, ...]:
    """The messages of one side: of the first name that has content, else of the first that is there."""
    if _starts_indexed(reading, side):
        return _first(reading, side, role, reading.with_lists(side))[0]
    best, told = _first(reading, side, role, reading.found_at.get(side, ()))
    return best if told else _first(reading, side, role, reading.with_lists(side), best)[0]


def _starts_indexed(reading: Reading, side: str) -> bool:
    """Whether this convention trusts lists spelled out in keys most; else they are looked for last."""
    return bool(getattr(reading.names, side)[0].endswith(".*"))


def _first(
    reading: Reading,
    side: str,
    role: str,
    candidates: Iterable[tuple[int, str, Any]],
    best: tuple[Message, ...] = (),
) -> tuple[tuple[Message, ...], bool]:
    """The messages of the first candidate that has content, and whether there was one."""
    for _, key, value in candidates:
        if is_masked(value):
            if not best:
                reading.note(side, key, Availability.CAPTURED_OFF)
            continue
        parsed, cut = parse_or_mend(value)
        messages = _messages(parsed, side, role)
        told = _has_content(messages)
        if told or (messages and not best):
            cut = cut or (key.endswith(".*") and side == "input" and reading.span.dropped_attributes > 0)
            _note(reading, side, key, told, cut)
            best = _cut_off(messages) if cut and not key.endswith(".*") else messages
            if told:
                return best, True
    return best, False


def _cut_off(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Messages whose last part lost its end."""
    *whole, last = messages
    if not last.parts:
        return messages
    return (*whole, replace(last, parts=(*last.parts[:-1], replace(last.parts[-1], truncated=True))))


def _messages(value: Any, side: str, role: str) -> tuple[Message, ...]:
    """Messages of a value; a list of events, as some keep in one attribute, is told by its names."""
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict) and "event.name" in value[0]:
        asked, said = event_messages((str(v.get("event.name")), v) for v in value if isinstance(v, dict))
        if side == "input":
            return tuple(asked)
        return tuple(said) or tuple(asked[-1:] if asked and asked[-1].role == "assistant" else ())
    return read_messages(value, role)


def _answer(reading: Reading) -> tuple[Message, ...]:
    """A final answer that stands in an attribute of its own."""
    for _, key, value in reading.found_at.get("answer", ()):
        if value != "" and not is_masked(value):
            reading.note("output", key)
            return (Message(role="assistant", parts=(Part(kind="text", text=text_of(value)),)),)
    return ()


def _from_events(reading: Reading, side: str, messages: list[Message]) -> tuple[Message, ...]:
    if messages:
        key = "gen_ai.choice" if side == "output" else "gen_ai.user.message"
        _note(reading, side, key, _has_content(messages), cut=False)
    return tuple(messages)


def _note(reading: Reading, side: str, key: str, told: bool, cut: bool) -> None:
    whole = Availability.PRESENT if told else Availability.CAPTURED_OFF
    reading.note(side, key, Availability.TRUNCATED if cut else whole)


def _has_content(messages: Iterable[Message]) -> bool:
    for message in messages:
        for part in message.parts:
            if part.text or part.data or (part.data is not None and part.kind != "tool_call"):
                return True
    return False


def _read_system(reading: Reading, inputs: tuple[Message, ...]) -> None:
    for _, key, value in reading.found_at.get("system", ()):
        if is_masked(value):
            continue
        parsed = parse(value)
        if isinstance(parsed, dict):
            texts = [m.text for m in read_messages(parsed, "system")]
        else:
            texts = [part.text or "" for part in read_parts(parsed)]
        joined = "\n\n".join(text for text in texts if text)
        if joined:
            reading.fields["system_instructions"] = joined
            reading.note("system", key)
            return
    texts = [m.text for m in inputs if m.role == "system"]
    joined = "\n\n".join(text for text in texts if text)
    if joined:
        reading.fields["system_instructions"] = joined
        reading.sources["system"] = reading.sources["input"]
        reading.availability["system"] = reading.availability["input"]
