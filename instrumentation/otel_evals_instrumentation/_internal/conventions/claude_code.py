"""Claude Code's own telemetry (beta), and plug-ins that record coding agents in its form.

The interaction has the prompt. Attributes of detailed tracing, span events and logs have the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from otel_evals.model import Message, OperationKind, Part, SpanRecord, ToolCall
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, SpanConvention, SpanReader
from otel_evals_instrumentation._internal.readers.events import named_events
from otel_evals_instrumentation._internal.readers.parts import text_message, text_of
from otel_evals_instrumentation._internal.readers.tool_values import result_of
from otel_evals_instrumentation._internal.readers.values import (
    first_present,
    first_text,
    is_masked,
    is_true,
    mapping,
    parse,
    unmasked,
)
from otel_evals_instrumentation._internal.readers.vocabulary import KINDS, words

_OWN = "claude_code."
_IDENTITY = frozenset(words("tool_name gen_ai.tool.name tool.name tool_use_id gen_ai.tool.call.id tool.id"))
"""Attributes that identify the call of an execution."""
_LABEL = re.compile(r"\A\[(?:USER PROMPT|TOOL (?:INPUT|RESULT|OUTPUT): [^\]\n]*)\]\n?")
"""Label of detailed tracing before a content."""
_RESULT = re.compile(r"\[TOOL RESULT: ([^\]\n]*)\]\n?")
_TERMINAL = re.compile(r"\x1b?\[[0-9;]*m")
"""Terminal colours, which the plug-ins leave in the model's name."""


def claude_code() -> SpanConvention:
    """Return the convention of the Claude Code command line and of Latitude's plug-ins for coding agents."""
    return SpanConvention(
        name="claude_code",
        content="`OTEL_LOG_USER_PROMPTS`, `OTEL_LOG_TOOL_DETAILS`, `OTEL_LOG_TOOL_CONTENT`",
        scopes=words("com.anthropic.claude_code claude-code @latitude-data/ latitude-telemetry"),
        markers=words(
            """user_prompt_length interaction.duration_ms llm_request.context response.model_output
            cache_creation_tokens"""
        ),
        names=AttributeNames(
            input="user_prompt gen_ai.input.messages new_context",
            output="gen_ai.output.messages response.model_output",
            system="user_system_prompt",
            tool_name="tool_name gen_ai.tool.name tool.name",
            tool_id="gen_ai.tool.call.id tool_use_id tool.id",
            arguments="tool_input gen_ai.tool.call.arguments tool.input",
            result="gen_ai.tool.call.result tool.output new_context",
            input_tokens="input_tokens",
            output_tokens="output_tokens",
            cache_read_tokens="cache_read_tokens",
            agent_name="gen_ai.agent.name subagent.name subagent.type",
            error="error",
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind by the span's type, which has a prefix in older versions, or else by its name."""
    kind = KINDS.get(str(span.attributes.get("span.type")).removeprefix(_OWN))
    if kind is None and span.name.startswith(_OWN):
        kind = KINDS.get(span.name.removeprefix(_OWN), OperationKind.OTHER)
    # In older versions, these only have the duration of the call above.
    is_duration = span.name.endswith(".execution") and _IDENTITY.isdisjoint(span.attributes)
    return OperationKind.OTHER if is_duration and kind is OperationKind.TOOL else kind


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    if kind is OperationKind.TOOL:
        _read_tool(reader)
    else:
        reader.rewrite_messages(_without_labels)
    if kind is OperationKind.AGENT:
        _read_interaction(reader)
    _count_cache(reader)
    model = reader.fields.get("request_model")
    if model is not None:
        reader.fields["request_model"] = _TERMINAL.sub("", model)
    return kind


def _without_labels(message: Message) -> Message:
    result = _RESULT.match(message.text)
    if result is not None:
        data = unmasked(message.text[result.end() :])
        part = Part(kind="tool_result", data=data, tool_call_id=result[1] or None)
        return Message(role="tool", parts=(part,))
    parts = (replace(part, text=_unlabelled(part.text)) for part in message.parts)
    return replace(message, parts=tuple(parts))


def _unlabelled(value: Any) -> Any:
    """Remove the label before a content; None if the rest is a mask."""
    if not isinstance(value, str):
        return value
    return unmasked(_LABEL.sub("", value))


def _read_interaction(reader: SpanReader) -> None:
    """Read the answer and the tools' inputs from log records."""
    outputs: list[Message] = []
    for name, event in named_events(reader.span):
        attributes = event.attributes
        said = first_text(attributes, ("response",))
        if said is not None:
            outputs.append(text_message("assistant", said))
            reader.note("output", name.removeprefix(_OWN))
        elif name.removeprefix(_OWN) == "tool_result" and attributes.get("tool_input") is not None:
            part = Part(
                kind="tool_call",
                data=parse(unmasked(attributes["tool_input"])),
                tool_call_id=first_text(attributes, ("tool_use_id",)),
                name=_tool_name(attributes),
            )
            outputs.append(Message(role="assistant", parts=(part,)))
    if outputs:
        reader.fields["output_messages"] = tuple(outputs)


def _tool_name(attributes: Mapping[str, Any]) -> str:
    """Return a tool's name; for MCP tools, all named `mcp_tool`, the parameters have it."""
    parameters = mapping(attributes.get("tool_parameters"))
    if parameters.get("mcp_tool_name"):
        return f"mcp__{parameters.get('mcp_server_name')}__{parameters['mcp_tool_name']}"
    return str(attributes.get("tool_name") or "tool")


def _read_tool(reader: SpanReader) -> None:
    """Read the result from a span event, and remove the labels of result and arguments."""
    call: ToolCall = reader.fields["tool_call"]
    call = replace(call, arguments=parse(_unlabelled(call.arguments)), result=parse(_unlabelled(call.result)))
    said = reader.attributes.get
    failed = said("success") in (False, "false") or is_true(said("tool.is_error"))
    for name, event in named_events(reader.span):
        output = first_present(event.attributes, ("output", "content", "result", "diff"))
        if name.removeprefix(_OWN) == "tool.output" and call.result is None and not is_masked(output):
            value, is_error = result_of(_unlabelled(output))
            call = replace(call, result=value, status="error" if is_error else "ok")
            reader.note("tool_results", "tool.output")
    if failed:
        call = replace(call, status="error", error=call.error or text_of(call.result))
    reader.fields["tool_call"] = call


def _count_cache(reader: SpanReader) -> None:
    """Add cached tokens to the input, as OpenTelemetry does; Anthropic counts them separately."""
    usage = reader.fields.get("usage")
    if usage is not None:
        written = reader.attributes.get("cache_creation_tokens")
        more = usage.cache_read_tokens + (written if isinstance(written, int) else 0)
        reader.fields["usage"] = replace(usage, input_tokens=usage.input_tokens + more)
