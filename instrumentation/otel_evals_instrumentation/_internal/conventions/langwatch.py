"""LangWatch: `langwatch.*`; inputs and outputs are typed, as `{"type": "chat_messages", "value": [...]}`."""

from __future__ import annotations

from typing import Any

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.convention import (
    PLATFORM,
    SpanConvention,
    SpanReader,
)
from otel_evals_instrumentation._internal.readers.documents import documents_of
from otel_evals_instrumentation._internal.readers.inputs_outputs import read_system
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import text_message, text_of
from otel_evals_instrumentation._internal.readers.values import mapping, parse, unmasked
from otel_evals_instrumentation._internal.readers.vocabulary import KINDS, kind_of_function, words

_OWN = "langwatch."
_OF_MODELS = frozenset(words("operation.name request.model response.model", "gen_ai."))


def langwatch() -> SpanConvention:
    """Return the convention of LangWatch's SDKs."""
    return SpanConvention(
        name="langwatch",
        content="on unless `capture_input` or `capture_output` is false",
        scopes=("langwatch",),
        order=PLATFORM,
        markers=words("langwatch.span.type langwatch.input langwatch.output"),
        kind_of=_kind,
        records_turns=True,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    known = KINDS.get(str(span.attributes.get("langwatch.span.type")))
    if known is not None:
        return known
    # Only models and agents have conversations.
    types = [_value(span.attributes.get(_OWN + side))[0] for side in ("input", "output")]
    if "chat_messages" in types:
        return OperationKind.INFERENCE
    return kind_of_function(span) if _OF_MODELS.isdisjoint(span.attributes) else None


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    given, gave = (_value(reader.attributes.get(_OWN + side)) for side in ("input", "output"))
    if kind is OperationKind.TOOL:
        _read_tool(reader, given[1], gave[1])
    elif kind is OperationKind.RETRIEVAL:
        _read_documents(reader, given[1])
    elif kind is not OperationKind.OTHER:
        _read_messages(reader, "input", "user", given)
        read_system(reader, reader.fields.get("input_messages", ()))
        _read_messages(reader, "output", "assistant", gave)
    reader.offer_metadata(reader.attributes.get("metadata", reader.attributes.get("langwatch.metadata")))
    reader.offer_usage(_value(reader.attributes.get("langwatch.metrics"))[1])
    if kind is OperationKind.AGENT:
        reader.fields.setdefault("agent_name", reader.span.name)
    return kind


def _value(attribute: Any) -> tuple[str, Any]:
    """Return type and value; a value without a type is a text or JSON."""
    typed = mapping(attribute)
    is_typed = typed.keys() >= {"type", "value"}
    return (str(typed["type"]), typed["value"]) if is_typed else ("", parse(attribute))


def _read_messages(reader: SpanReader, side: str, role: str, given: tuple[str, Any]) -> None:
    field = side + "_messages"
    # LangWatch's own attributes come before OpenTelemetry's first names.
    is_older = reader.source_of(side) in ("gen_ai.prompt", "gen_ai.completion")
    kind, value = given
    if value in (None, "") or (reader.fields.get(field) and not is_older):
        return
    messages = () if kind == "text" else read_messages(value, role)
    reader.set_messages(side, messages or (text_message(role, unmasked(text_of(value))),), _OWN + side)


def _read_tool(reader: SpanReader, given: Any, gave: Any) -> None:
    reader.offer_name(reader.text("tool_name") or reader.span.name)
    call = reader.change_call(arguments=parse(given), result=parse(gave))
    if call.status == "unknown" and call.result is not None:
        reader.change_call(status="ok")
    for value, field, side in ((given, "tool_arguments", "input"), (gave, "tool_results", "output")):
        if value is not None:
            reader.note(field, _OWN + side)


def _read_documents(reader: SpanReader, given: Any) -> None:
    """Read the contexts as documents, and the input as their query."""
    for key in ("langwatch.rag.contexts", "langwatch.rag_contexts"):
        contexts = _value(reader.attributes.get(key))[1]
        found = documents_of(contexts, _query(given), reader.span.span_id)
        if found:
            reader.fields["documents"] = found
            reader.note("documents", key)
            return


def _query(value: Any) -> str | None:
    """Return a text, or the only named argument of a function."""
    if isinstance(value, dict) and len(value) == 1:
        (value,) = value.values()
    asked = read_messages(value, "user")
    return asked[0].text if asked else None
