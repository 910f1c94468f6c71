"""Google's Agent Development Kit: OpenTelemetry's names since version 2, `gcp.vertex.agent.*` before."""

from __future__ import annotations

from msgspec.structs import replace

from otel_evals.model import Availability, OperationKind, Part, SpanRecord, ToolCall
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import SpanConvention, kind_of
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tool_values import unwrapped_result, unwrapped_value
from otel_evals_instrumentation._internal.readers.tools import error_of_adk, waits_for_approval
from otel_evals_instrumentation._internal.readers.vocabulary import kind_by_start, kinds, words

_OF_TOOLS = ("gcp.vertex.agent.tool_call_args", "gcp.vertex.agent.tool_response")
_OF_MODELS = _REQUEST, _RESPONSE = ("gcp.vertex.agent.llm_request", "gcp.vertex.agent.llm_response")
_STARTS = kinds(agent="agent_run invoke_agent", workflow="invocation")
"""By the beginning of a span's name, in the first versions."""


def google_adk() -> SpanConvention:
    """Return the convention of ADK."""
    return SpanConvention(
        name="google_adk",
        content=(
            "`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true`; version 1: on unless "
            "`ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false`"
        ),
        scopes=("gcp.vertex.agent",),
        markers=words(
            """gcp.vertex.agent.invocation_id gcp.vertex.agent.event_id gcp.vertex.agent.llm_request
            gcp.vertex.agent.llm_response gcp.vertex.agent.tool_call_args gcp.vertex.agent.tool_response"""
        ),
        names=AttributeNames(
            input="gen_ai.input.messages gcp.vertex.agent.llm_request",
            output="gen_ai.output.messages gcp.vertex.agent.llm_response",
            arguments="gen_ai.tool.call.arguments gcp.vertex.agent.tool_call_args",
            result="gen_ai.tool.call.result gcp.vertex.agent.tool_response",
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Unwrap results, and read the agent's name from the span's name, which has it in the first versions."""
    call, name = reader.fields.get("tool_call"), reader.span.name
    if call is not None and all(reader.attributes.get(key) == "{}" for key in _OF_TOOLS):
        # Content that is off.
        reader.fields["tool_call"] = replace(call, arguments=None, result=None)
        for field, key in zip(("tool_arguments", "tool_results"), _OF_TOOLS, strict=True):
            reader.note(field, key, Availability.CAPTURED_OFF)
    elif call is not None:
        reader.fields["tool_call"] = with_error_of_adk(replace(call, result=unwrapped_value(call.result)))
    _read_blobs(reader)
    reader.rewrite_messages(lambda message: replace(message, parts=tuple(map(_result, message.parts))))
    if kind is OperationKind.AGENT and name.endswith("]"):
        reader.offer("agent_name", name[name.find("[") + 1 : -1])
    return kind


def _read_blobs(reader: SpanReader) -> None:
    """Drop request and response that are no JSON, and read more token counts from the response."""
    for side, key in (("input", _REQUEST), ("output", _RESPONSE)):
        if reader.source_of(side) == key and str(reader.attributes.get(key))[:1] not in "{[":
            reader.fields[side + "_messages"] = ()
    gave = reader.mapping(_RESPONSE)
    counts = gave.get("usage_metadata", gave.get("usageMetadata"))
    reader.offer_usage(counts)
    reader.fill_usage(counts)


def _result(part: Part) -> Part:
    if part.kind != "tool_result":
        return part
    part = unwrapped_result(part)
    failed = error_of_adk(part.data) is not None and not waits_for_approval(part.data)
    return replace(part, failed=part.failed or failed)


def with_error_of_adk(call: ToolCall) -> ToolCall:
    """Return a call as failed if ADK wrote an error as its response."""
    error = error_of_adk(call.result)
    if error is None or call.status == "pending":
        return call
    return replace(call, status="error", error=error)


def _kind(span: SpanRecord) -> OperationKind | None:
    attributes, name = span.attributes, span.name
    if "(merged" in name:
        return OperationKind.OTHER
    if name.startswith("execute_tool") or not attributes.keys().isdisjoint(_OF_TOOLS):
        return OperationKind.TOOL
    if "gen_ai.operation.name" in attributes:
        return None
    if not attributes.keys().isdisjoint(_OF_MODELS):
        return OperationKind.INFERENCE
    return kind_by_start(name, _STARTS) or kind_of(span) or OperationKind.OTHER
