"""Coding agents on the command line: Codex and Gemini CLI."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from otel_evals.model import Message, OperationKind, Part, SpanEvent, ToolCall, Usage
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, SpanConvention, SpanReader
from otel_evals_instrumentation._internal.readers.events import named_events
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.parts import join_chunks, text_message
from otel_evals_instrumentation._internal.readers.values import first_text, mapping, parse
from otel_evals_instrumentation._internal.readers.vocabulary import KINDS, kind_named, usage_in, words

# --- OpenAI's Codex command line: `codex.turn.*` on spans, prompts and tools' results in log records ---


def codex() -> SpanConvention:
    """Return the convention of interactive Codex and of `codex exec`."""
    return SpanConvention(
        name="codex",
        content="`log_user_prompt = true` in the configuration's `[otel]`",
        scopes=words("codex_cli_rs codex_exec codex_core codex_otel"),
        markers=words("codex.turn.token_usage.input_tokens codex.turn.reasoning_effort"),
        names=AttributeNames(
            input_tokens="codex.turn.token_usage.input_tokens",
            output_tokens="codex.turn.token_usage.output_tokens",
            cache_read_tokens="codex.turn.token_usage.cached_input_tokens",
            reasoning_tokens="""
                codex.turn.token_usage.reasoning_output_tokens codex.usage.reasoning_output_tokens
            """,
            conversation_id="conversation.id thread.id",
        ),
        kind_of=lambda span: KINDS.get(span.name),
        refine=_codex_refine,
    )


def _codex_refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read the prompt, the tool calls and their results from log records."""
    asked: list[Message] = []
    said: list[Message] = []
    for name, event in named_events(reader.span):
        if name == "codex.user_prompt":
            text = first_text(event.attributes, ("prompt",))
            if text is not None:
                asked.append(text_message("user", text))
        elif name == "codex.tool_result" and event.attributes.get("tool_name"):
            said.extend(_tool(event))
        else:
            _read_counts(reader, event)
    if asked and not reader.fields.get("input_messages"):
        reader.set_messages("input", tuple(asked), "codex.user_prompt")
    if said:
        said += reader.fields.get("output_messages", ())
        reader.set_messages("output", tuple(said), "codex.tool_result")
    return kind


def _read_counts(reader: SpanReader, event: SpanEvent) -> None:
    """Add the tokens of a response, unless the span has its own, and read the model."""
    more = usage_in(event.attributes)
    if more is not None and "input_tokens" not in reader.found_at:
        reader.fields["usage"] = reader.fields.get("usage", Usage()) + more
    reader.offer("request_model", event.attributes.get("model"))
    reader.offer("conversation_id", event.attributes.get("conversation.id"))


def _tool(event: SpanEvent) -> list[Message]:
    attributes = event.attributes
    common: dict[str, Any] = {
        "tool_call_id": first_text(attributes, ("call_id",)),
        "name": str(attributes["tool_name"]),
    }
    call = Part(kind="tool_call", data=parse(attributes.get("arguments")), **common)
    failed = str(attributes.get("success")).lower() == "false"
    result = Part(kind="tool_result", data=parse(attributes.get("output")), failed=failed, **common)
    return [Message(role="assistant", parts=(call,)), Message(role="tool", parts=(result,))]


# --- Gemini CLI: OpenTelemetry's names, its own operations; requests and responses as Gemini's JSON ---


def gemini_cli() -> SpanConvention:
    """Return the convention of the Gemini command line."""
    return SpanConvention(
        name="gemini_cli",
        content="`telemetry.traces`, unless `telemetry.logPrompts` is false",
        scopes=("gemini-cli",),
        names=AttributeNames(
            tool_id="gen_ai.tool.call_id",
            arguments="gen_ai.input.messages",
            result="gen_ai.output.messages",
        ),
        kind_of=lambda span: kind_named(span.attributes.get("gen_ai.operation.name", "")),
        refine=_gemini_cli_refine,
    )


def _gemini_cli_refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    if kind is OperationKind.TOOL:
        _read_tool(reader)
    elif kind is OperationKind.INFERENCE:
        messages = reader.fields.get("output_messages", ())
        if len(messages) > 1 and all(message.role == "assistant" for message in messages):
            reader.fields["output_messages"] = (join_chunks(messages),)
    return kind


def _read_tool(reader: SpanReader) -> None:
    """Read the arguments from the request, and the result from the finished call."""
    call: ToolCall = reader.fields["tool_call"]
    request, done = mapping(call.arguments), mapping(call.result)
    if "args" in request:
        name, identity = (first_text(request, (key,)) for key in ("name", "callId"))
        call = replace(reader.change_call(name=name, id=identity), arguments=request["args"])
    response = mapping(done.get("response"))
    if response:
        messages = read_messages(response.get("responseParts"), "tool")
        results = [part.data for message in messages for part in message.parts]
        value = results[0] if results else response.get("resultDisplay")
        decoded = parse(value)
        # A text, which the CLI records as `{"output": ...}`.
        is_text = isinstance(decoded, dict) and decoded.keys() == {"output"}
        call = replace(call, result=decoded["output"] if is_text else decoded, status="ok")
        if "error" in (done.get("status"), reader.fields["tool_call"].status):
            error = first_text(mapping(response.get("error")), ("message",)) or call.error
            call = replace(call, error=error, status="error")
    reader.fields["name"] = call.name
    reader.fields["tool_call"] = call
