"""Gemini CLI: OpenTelemetry's names, its own operations; requests and responses as Gemini's JSON."""

from __future__ import annotations

from msgspec.structs import replace

from otel_evals.model import Availability, OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import join_chunks
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import parse
from otel_evals_instrumentation._internal.readers.vocabulary import kind_named, kinds

_KINDS = kinds(agent="user_prompt agent_call", inference="llm_call", tool="tool_call")


def gemini_cli() -> Convention:
    """Return the dialect of the Gemini command line."""
    return Convention(
        name="gemini_cli",
        scopes=("gemini-cli",),
        names=AttributeNames(
            tool_id=("gen_ai.tool.call_id",),
            arguments=("gen_ai.input.messages",),
            result=("gen_ai.output.messages",),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    return kind_named(span.attributes.get("gen_ai.operation.name"), _KINDS) or OperationKind.OTHER


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    if kind is OperationKind.TOOL:
        _read_tool(reader)
    elif kind is OperationKind.INFERENCE:
        messages = reader.fields.get("output_messages", ())
        if len(messages) > 1 and all(message.role == "assistant" for message in messages):
            reader.fields["output_messages"] = (join_chunks(messages),)
    return kind


def _read_tool(reader: SpanReader) -> None:
    """Read the arguments from the request, and the result from the finished call."""
    call = reader.fields["tool_call"]
    request, done = call.arguments, call.result
    if isinstance(request, dict) and "args" in request:
        identity = request.get("callId")
        call = replace(
            call,
            name=request.get("name") or call.name,
            arguments=request["args"],
            id=identity if isinstance(identity, str) else call.id,
        )
    if isinstance(done, dict) and isinstance(done.get("response"), dict):
        response = done["response"]
        results = [
            part.data
            for message in read_messages(response.get("responseParts"), "tool")
            for part in message.parts
            if part.kind == "tool_result"
        ]
        failed = done.get("status") == "error" or call.status == "error"
        value = results[0] if results else response.get("resultDisplay")
        call = replace(call, result=_output(value), status="error" if failed else "ok")
        error = response.get("error")
        if failed and call.error in (None, "error"):
            text = error.get("message") if isinstance(error, dict) else error
            call = replace(call, error=text if isinstance(text, str) else call.error)
    elif "tool_results" in reader.noted and isinstance(done, str):
        reader.note("tool_results", "gen_ai.output.messages", Availability.TRUNCATED)
    reader.fields["name"] = call.name
    reader.fields["tool_call"] = call


def _output(value: object) -> object:
    """Unwrap a text, which the CLI records as `{"output": ...}`."""
    value = parse(value)
    return value["output"] if isinstance(value, dict) and value.keys() == {"output"} else value
