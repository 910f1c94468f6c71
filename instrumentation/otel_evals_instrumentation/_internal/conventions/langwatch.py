"""LangWatch: `langwatch.*`; inputs and outputs are typed, as `{"type": "chat_messages", "value": [...]}`."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.content import documents_of, read_system
from otel_evals_instrumentation._internal.readers.convention import (
    PLATFORM,
    AttributeNames,
    SpanConvention,
    SpanReader,
)
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import text_message, text_of
from otel_evals_instrumentation._internal.readers.values import parse, unmasked
from otel_evals_instrumentation._internal.readers.vocabulary import kind_of_function, kinds, words

_OWN = "langwatch."
_OF_MODELS = frozenset(words("operation.name request.model response.model", "gen_ai."))
_KINDS = kinds(inference="llm", agent="agent", tool="tool", retrieval="rag", workflow="workflow chain")


def langwatch() -> SpanConvention:
    """Return the convention of LangWatch's SDKs."""
    return SpanConvention(
        name="langwatch",
        content="on unless `capture_input` or `capture_output` is false",
        scopes=("langwatch",),
        order=PLATFORM,
        markers=words("langwatch.span.type langwatch.input langwatch.output"),
        names=AttributeNames(
            conversation_id="""
                langwatch.thread.id gen_ai.conversation.id langwatch.thread_id langwatch.langgraph.thread_id
                thread_id
            """,
            user_id="langwatch.user.id langwatch.user_id user.id user_id",
        ),
        kind_of=_kind,
        records_turns=True,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = span.attributes.get(_OWN + "span.type")
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None and any(_is_chat(span.attributes.get(_OWN + side)) for side in ("input", "output")):
        return OperationKind.INFERENCE
    if known is None and _OF_MODELS.isdisjoint(span.attributes):
        return kind_of_function(span)
    return known


def _is_chat(given: Any) -> bool:
    """Return True for a value with the type of a conversation, which only models and agents have."""
    value = _value(given)
    return value is not None and value[0] == "chat_messages"


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    given, gave = (_value(reader.attributes.get(_OWN + side)) for side in ("input", "output"))
    if kind is OperationKind.TOOL:
        _read_tool(reader, given, gave)
    elif kind is OperationKind.RETRIEVAL:
        _read_documents(reader, given)
    elif kind is not OperationKind.OTHER:
        _read_messages(reader, "input", "user", given)
        read_system(reader, reader.fields.get("input_messages", ()))
        _read_messages(reader, "output", "assistant", gave)
    reader.offer_metadata(reader.attributes.get("metadata", reader.attributes.get(_OWN + "metadata")))
    metrics = _value(reader.attributes.get(_OWN + "metrics"))
    if metrics is not None:
        reader.offer_usage(metrics[1])
    if kind is OperationKind.AGENT:
        reader.fields.setdefault("agent_name", reader.span.name)
    return kind


def _value(attribute: Any) -> tuple[str, Any] | None:
    """Return type and value; a value without a type is a text or JSON."""
    parsed = parse(attribute)
    if parsed is None:
        return None
    if isinstance(parsed, dict) and isinstance(parsed.get("type"), str) and "value" in parsed:
        return parsed["type"], parsed["value"]
    if isinstance(parsed, list) and len(parsed) == 1:
        parsed = parsed[0]
    return ("text" if isinstance(parsed, str) else "json"), parsed


def _read_messages(reader: SpanReader, side: str, role: str, given: tuple[str, Any] | None) -> None:
    field = side + "_messages"
    # LangWatch's own attributes come before OpenTelemetry's first names.
    is_older = reader.source_of(side) in ("gen_ai.prompt", "gen_ai.completion")
    if given is None or (reader.fields.get(field) and not is_older):
        return
    kind, value = given
    messages = read_messages(value, role)
    if kind == "text" or not messages:
        text = unmasked(text_of(value)) if value not in (None, "") else None
        messages = (text_message(role, text),) if text else ()
    if messages:
        reader.fields[field] = messages
        reader.note(side, _OWN + side)


def _read_tool(reader: SpanReader, given: tuple[str, Any] | None, gave: tuple[str, Any] | None) -> None:
    call = reader.fields["tool_call"]
    name = reader.span.name if reader.text("tool_name") is None else call.name
    arguments = call.arguments if given is None else parse(given[1])
    result = call.result if gave is None else parse(gave[1])
    ok = "ok" if call.status == "unknown" and result is not None else call.status
    reader.fields["name"] = name
    reader.fields["tool_call"] = replace(call, name=name, arguments=arguments, result=result, status=ok)
    for value, field, side in ((given, "tool_arguments", "input"), (gave, "tool_results", "output")):
        if value is not None:
            reader.note(field, _OWN + side)


def _read_documents(reader: SpanReader, given: tuple[str, Any] | None) -> None:
    """Read the contexts as documents, and the input as their query."""
    for key in (_OWN + "rag.contexts", _OWN + "rag_contexts"):
        contexts = _value(reader.attributes.get(key))
        if contexts is not None:
            query = _query(given[1]) if given is not None else None
            items = contexts[1] if isinstance(contexts[1], list) else [contexts[1]]
            found = documents_of([_document(item) for item in items], query, reader.span.span_id)
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


def _document(item: Any) -> Any:
    if not isinstance(item, dict) or item.get("content") is None:
        return item
    content = item["content"]
    return {**item, "content": content if isinstance(content, str) else text_of(content)}
