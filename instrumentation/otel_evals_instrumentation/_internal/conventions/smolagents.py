"""smolagents as OpenInference instruments it: its agents answer by calling a tool that does not exist."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from otel_evals.dialects import Dialect
from otel_evals.model import Message, OperationKind
from otel_evals_instrumentation._internal.conventions.openinference import TABLE
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader


def smolagents() -> Dialect:
    """OpenInference as smolagents is instrumented: its agents answer through a tool that is none."""
    return replace(
        TABLE,
        name="smolagents",
        scopes=("openinference.instrumentation.smolagents",),
        markers=(),
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    call = reader.fields.get("tool_call")
    if call is not None and call.name == "final_answer":
        return OperationKind.OTHER
    for side in ("input_messages", "output_messages"):
        if side in reader.fields:
            reader.fields[side] = tuple(map(_plain, reader.fields[side]))
    return kind


def _plain(message: Message) -> Message:
    """A message without the wrapping of the task and with the pseudo call told apart."""
    parts = tuple(
        structs.replace(part, kind="other")
        if part.kind == "tool_call" and part.name == "final_answer"
        else structs.replace(part, text=part.text.removeprefix("New task:\n"))
        if part.kind == "text" and part.text and message.role == "user"
        else part
        for part in message.parts
    )
    return structs.replace(message, parts=parts)
