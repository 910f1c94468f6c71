"""smolagents as OpenInference instruments it: its agents answer by calling a tool that does not exist."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs

from otel_evals.model import Message, OperationKind
from otel_evals_instrumentation._internal.conventions.openinference import TABLE
from otel_evals_instrumentation._internal.readers.convention import SpanConvention, SpanReader


def smolagents() -> SpanConvention:
    """Return the convention of OpenInference's instrumentation of smolagents."""
    return replace(
        TABLE,
        name="smolagents",
        content="on unless `OPENINFERENCE_HIDE_INPUTS` or `OPENINFERENCE_HIDE_OUTPUTS` is true",
        scopes=("openinference.instrumentation.smolagents",),
        markers=(),
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    call = reader.fields.get("tool_call")
    if call is not None and call.name == "final_answer":
        return OperationKind.OTHER
    reader.rewrite_messages(_plain)
    return kind


def _plain(message: Message) -> Message:
    """Remove the title of the task, and mark the call of the pseudo tool."""
    parts = tuple(
        structs.replace(part, kind="other")
        if part.kind == "tool_call" and part.name == "final_answer"
        else structs.replace(part, text=part.text.removeprefix("New task:\n"))
        if part.kind == "text" and part.text and message.role == "user"
        else part
        for part in message.parts
    )
    return structs.replace(message, parts=parts)
