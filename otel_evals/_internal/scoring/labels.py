"""Reads labelled examples, one JSON object per line, as runs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import ValidationError, convert

from otel_evals._internal.model import Document, Media, Message, OperationKind, Part, Run, ToolCall
from otel_evals._internal.util.json_text import read_json
from otel_evals._internal.util.plain import as_text
from otel_evals.errors import ConfigError

_KEYS = {"id", "label", "input", "output", "system", "history", "tools", "context", "media", "expected"}
_KEYS |= {"verdict", "failure_type"}  # for people; exports have them


@dataclass(frozen=True, slots=True)
class Example:
    """A run and its human label."""

    id: str
    run: Run
    label: float
    """On the scorer's own scale: a hallucinated answer has a high label for `hallucination`."""


def read_labels(lines: Iterable[str]) -> list[Example]:
    """Read examples.

    Each line has `label` (true, false or a number), `output`, and as needed `input`, `system`, `history` (a
    list of `role` and `content`), `tools` (a list of `name`, `arguments`, `result`, `error`), `context` (a
    list of texts, taken as retrieved documents), `media` (as in the records of runs), `expected` and `id`.

    Raises:
        ConfigError: the named line is not such an object.
    """
    return [_example(line, number) for number, line in enumerate(lines, 1) if line.strip()]


def _example(line: str, number: int) -> Example:
    try:
        record = read_json(line)
    except ValueError as error:
        raise ConfigError(f"line {number}", f"is not JSON: {error}") from None
    label = record.get("label") if isinstance(record, dict) else None
    if not isinstance(label, int | float) or not abs(label) <= sys.float_info.max:  # NaN is no answer to <=
        raise ConfigError(f"line {number}.label", "is required: true, false or a finite number")
    if unknown := sorted(record.keys() - _KEYS):
        raise ConfigError(f"line {number}.{unknown[0]}", f"is unknown; known: {', '.join(sorted(_KEYS))}")
    try:
        return Example(str(record.get("id", number)), run_of(record), float(label))
    except (TypeError, KeyError, AttributeError, ValidationError) as error:
        raise ConfigError(f"line {number}", f"has a wrong form: {error!r}") from None


def run_of(record: Mapping[str, Any]) -> Run:
    """Build the run of an example."""
    output, given = record.get("output"), record.get("input")
    return Run(
        trace_id="0" * 32,
        root_span_id="0" * 16,
        root_kind=OperationKind.AGENT,
        input_messages=() if given is None else (_message("user", given, _media(record, "input")),),
        history=tuple(_message(m["role"], m["content"]) for m in record.get("history") or ()),
        system_instructions=record.get("system"),
        output=None if output is None else as_text(output),
        output_messages=() if output is None else (_message("assistant", output, _media(record, "output")),),
        tool_calls=tuple(_tool_call(call) for call in record.get("tools") or ()),
        documents=tuple(Document(content=as_text(piece)) for piece in record.get("context") or ()),
        ground_truth=record.get("expected"),
    )


def _message(role: str, content: Any, media: Iterable[Part] = ()) -> Message:
    return Message(role=role, parts=(Part(kind="text", text=as_text(content)), *media))


def _media(record: Mapping[str, Any], side: str) -> Iterator[Part]:
    """Return the media of a side: objects with `side` and the fields of a Media."""
    for given in record.get("media") or ():
        if given["side"] == side:
            yield Part(kind="media", media=convert({n: v for n, v in given.items() if n != "side"}, Media))


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    error = call.get("error")
    return ToolCall(
        name=call["name"],
        arguments=call.get("arguments"),
        result=call.get("result"),
        error=None if error is None else as_text(error),
        status="ok" if error is None else "error",
    )
