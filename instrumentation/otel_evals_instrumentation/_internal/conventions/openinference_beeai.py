"""BeeAI as OpenInference instruments it: events of tools, models and agents are spans."""

from __future__ import annotations

import re

from msgspec.structs import replace

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import parse

_EVENT = re.compile(r"(agent|backend|tool)\.(?:.+\.)?([^.]+)\.([a-z_A-Z]+)-[0-9]+")
"""`tool.search.wikipedia.success-12`: the group, the name, the event and its number."""


def kind_of_event(span: SpanRecord) -> OperationKind | None:
    """What an event stands for; None for spans that are none.

    A tool's end tells the whole call, a model's start what it was asked. The others repeat these.
    """
    if not span.scope_name.endswith(".beeai"):
        return None
    event = _EVENT.fullmatch(span.name)
    if event is None:  # later versions write the event's path as an attribute
        is_event = "metadata.path" in span.attributes and "metadata.class_name" not in span.attributes
        return OperationKind.OTHER if is_event else None
    if event[1] == "tool" and event[3] in ("success", "error"):
        return OperationKind.TOOL
    if event[1] == "backend" and event[3] == "start":
        return OperationKind.INFERENCE
    return OperationKind.OTHER


def read_event(reader: SpanReader) -> None:
    """Read the name and the arguments of a tool that a span's name and parameters tell."""
    call = reader.fields.get("tool_call")
    event = _EVENT.fullmatch(reader.span.name) if reader.span.scope_name.endswith(".beeai") else None
    if call is None or event is None:
        return
    name = reader.text("tool_name") or event[2]
    given = parse(reader.attributes.get("tool.parameters"))
    reader.fields["name"] = name
    reader.fields["tool_call"] = replace(
        call, name=name, arguments=call.arguments if given is None else given
    )
