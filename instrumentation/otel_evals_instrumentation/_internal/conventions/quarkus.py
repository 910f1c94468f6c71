"""Quarkus with LangChain4j: spans of AI services without attributes, and prompts as one text."""

from __future__ import annotations

from otel_evals.model import Message, OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import Convention, SpanReader
from otel_evals_instrumentation._internal.readers.parts import text_message

_SCOPE = "io.quarkus.opentelemetry"
_SERVICE, _TOOL, _MODEL = "langchain4j.aiservices.", "langchain4j.tools.", "completion "


def quarkus() -> Convention:
    """Return the dialect of quarkus-langchain4j, which shares its scope with all of Quarkus."""
    return Convention(
        name="quarkus",
        span_names=tuple((_SCOPE, start) for start in (_SERVICE, _TOOL, _MODEL)),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    if span.name.startswith(_SERVICE):
        return OperationKind.AGENT
    if span.name.startswith(_MODEL):
        return OperationKind.INFERENCE if "gen_ai.request.model" in span.attributes else None
    return OperationKind.TOOL


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    if kind is OperationKind.AGENT:
        service = reader.span.name.removeprefix(_SERVICE).rpartition(".")[0]
        reader.offer("agent_name", service.rpartition("$")[2].rpartition(".")[2])
    elif reader.source_of("input") == "gen_ai.prompt":
        reader.fields["input_messages"] = _messages(str(reader.attributes["gen_ai.prompt"]))
    return kind


def _messages(prompt: str) -> tuple[Message, ...]:
    """Split a prompt into the user's last line and what comes before it.

    The texts of all messages are joined by line ends, without roles: only the last line is known to be the
    user's, if no tool has been called since.
    """
    before, _, last = prompt.rpartition("\n")
    asked = text_message("user", last)
    return (text_message("unknown", before), asked) if before else (asked,)
