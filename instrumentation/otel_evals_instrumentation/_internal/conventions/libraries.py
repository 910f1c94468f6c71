"""Instrumentation libraries: LoongSuite with its relatives, and Monocle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from otel_evals.model import Availability, Message, OperationKind
from otel_evals_instrumentation._internal.readers.convention import (
    LIBRARY,
    AttributeNames,
    SpanConvention,
    SpanReader,
)
from otel_evals_instrumentation._internal.readers.inputs_outputs import read_system
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import read_parts, text_message
from otel_evals_instrumentation._internal.readers.tool_values import (
    arguments_of,
    result_of,
    tool_call,
    tool_result,
)
from otel_evals_instrumentation._internal.readers.values import is_masked, listed, mapping, parse
from otel_evals_instrumentation._internal.readers.vocabulary import (
    LANGCHAIN,
    ROLES,
    kind_named,
    kinds,
    role_of,
)

# --- LoongSuite, ARMS, Dify and traceAI: `gen_ai.span.kind` next to OpenTelemetry's names ---


_KIND = "gen_ai.span.kind"


def loongsuite() -> SpanConvention:
    """Return the convention of spans with a kind next to OpenTelemetry's."""
    return SpanConvention(
        name="loongsuite",
        content=(
            "`OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental` and "
            "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY`; Dify: always on"
        ),
        order=LIBRARY,
        markers=("gen_ai.span.kind",),
        names=AttributeNames(
            documents="retrieval.documents retrieval.documents.* retrieval.document output.value",
            query="retrieval.query input.value",
        ),
        kind_of=lambda span: kind_named(span.attributes.get(_KIND)),
        records_turns=True,
        refine=_loongsuite_refine,
    )


def _loongsuite_refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read the model from the call's parameters, where streamed and failed calls of traceAI have it."""
    if kind is OperationKind.INFERENCE and "response_model" not in reader.fields:
        reader.offer("request_model", reader.mapping("gen_ai.request.parameters").get("model"))
    return kind


# --- Monocle: `span.type` and numbered entities; content and tokens are in three span events ---


_INPUT, _OUTPUT, _NUMBERS = "data.input", "data.output", "metadata"
_CALLS = "tools"
"""Instead of a role, for the calls in a streamed response."""
_ROLES = frozenset((*ROLES, *LANGCHAIN, _CALLS, "model", "developer"))
_MONOCLE_KINDS = kinds(
    agent="agentic.turn agentic.request agentic.invocation",
    tool="agentic.tool.invocation agentic.mcp.invocation",
    inference="inference inference.framework",
    retrieval="retrieval",
    embedding="embedding",
)


def monocle() -> SpanConvention:
    """Return the convention of Monocle."""
    return SpanConvention(
        name="monocle",
        order=LIBRARY,
        scopes=("monocle_apptrace",),
        markers=("monocle_apptrace.version",),
        kind_of=lambda span: kind_named(span.attributes.get("span.type", ""), _MONOCLE_KINDS),
        refine=_monocle_refine,
    )


def _monocle_refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read names from the numbered entities, and the rest from the events."""
    span = reader.span
    events = {event.name: event.attributes for event in (*span.events, *span.logs)}
    for key, role in span.attributes.items():
        name = span.attributes.get(key.removesuffix("type") + "name")
        if str(role).startswith("agent.") and kind is not OperationKind.TOOL:
            reader.offer("agent_name", name)
        elif str(role).startswith("model."):
            reader.offer("request_model", name)
    reader.offer("conversation_id", reader.attributes.get("scope.agentic.session"))
    given = events.get(_INPUT, {}).get("input")
    said = None if span.status == "ERROR" else events.get(_OUTPUT, {}).get("response")  # the error's text
    if kind is OperationKind.TOOL:
        _read_tool(reader, _noted(reader, "tool_arguments", given), _noted(reader, "tool_results", said))
    elif kind is not OperationKind.OTHER:
        given, said = _noted(reader, "input", given), _noted(reader, "output", said)
        reader.fields["input_messages"] = tuple(_messages(given, "user"))
        reader.fields["output_messages"] = tuple(_messages(said, "assistant"))
        read_system(reader, reader.fields["input_messages"])
        numbers = events.get(_NUMBERS, {})
        reader.offer_usage(numbers)
        reader.offer_finish(numbers.get("finish_reason"))
    return kind


def _read_tool(reader: SpanReader, given: Any, said: Any) -> None:
    result, failed = result_of(said, wrapped=False)
    reader.offer_name(reader.attributes.get("entity.1.name"))
    status = "error" if failed else None if said is None else "ok"
    reader.change_call(arguments=arguments_of(given), result=result, status=status)


def _noted(reader: SpanReader, field: str, value: Any) -> Any:
    """Return a content, or None for a mask, and note its event."""
    event = _INPUT if field in ("input", "tool_arguments") else _OUTPUT
    masked = all(map(is_masked, listed(value) or (value,)))
    if value is not None:
        reader.note(field, event, Availability.CAPTURED_OFF if masked else Availability.PRESENT)
    return None if masked else value


def _messages(value: Any, role: str) -> Iterator[Message]:
    """Read a list of texts, some of which are JSON such as `{"user": "Hello"}`, or one of them."""
    value = parse(value)
    items = value if isinstance(value, (list, tuple)) else (value,)
    for item in items:
        one = mapping(item)
        if len(one) == 1 and not _ROLES.isdisjoint(one):
            yield from map(_message, one, one.values())
        elif isinstance(item, str) and item:
            yield text_message(role, item)
        else:
            yield from read_messages(item, role)


def _message(name: str, content: Any) -> Message:
    """Read one role's message: text, parts, tool calls or a tool result."""
    role = "assistant" if name == _CALLS else role_of(name)
    if role == "tool":
        return Message(role=role, parts=(tool_result({"content": content}),))
    items = listed(content)
    calls = [
        call for call in map(mapping, items) if "tool_arguments" in call or call.keys() >= {"args", "name"}
    ]
    if calls and len(calls) == len(items):
        return Message(role=role, parts=tuple(map(tool_call, calls)))
    return Message(role=role, parts=read_parts(content))
