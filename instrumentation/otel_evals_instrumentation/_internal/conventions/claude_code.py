"""Claude Code's own telemetry (beta), and plug-ins that write the transcripts of coding agents in its form.

The prompt stands on the interaction, the rest in attributes of detailed tracing, in span events and in logs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from otel_evals.dialects import Dialect
from otel_evals.model import Message, OperationKind, Part, SpanEvent, SpanRecord, ToolCall
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tool_values import result_of
from otel_evals_instrumentation._internal.readers.values import is_masked, parse, unmasked

_KINDS = {
    "interaction": OperationKind.AGENT,
    "agent": OperationKind.AGENT,
    "llm_request": OperationKind.INFERENCE,
    "tool": OperationKind.TOOL,
    "tool_execution": OperationKind.TOOL,
    "tool.execution": OperationKind.TOOL,
}
_OWN = "claude_code."
_IDENTITY = frozenset(
    ("tool_name", "gen_ai.tool.name", "tool.name", "tool_use_id", "gen_ai.tool.call.id", "tool.id")
)
"""What tells which call a span of its execution belongs to."""
_LABEL = re.compile(r"\[(?:USER PROMPT|TOOL (?:INPUT|RESULT|OUTPUT): [^\]\n]*)\]\n?")
"""What detailed tracing writes before a content, to say what it is."""
_RESULT = re.compile(r"\[TOOL RESULT: ([^\]\n]*)\]\n?")
_TERMINAL = re.compile(r"\x1b?\[[0-9;]*m")
"""Colours of the terminal, which the plug-ins leave in the model's name."""


def claude_code() -> Dialect:
    """The dialect of the Claude Code command line and of Latitude's plug-ins for coding agents."""
    return Convention(
        name="claude_code",
        scopes=("com.anthropic.claude_code", "claude-code", "@latitude-data/", "latitude-telemetry"),
        markers=(
            "user_prompt_length",
            "interaction.duration_ms",
            "llm_request.context",
            "response.model_output",
            "cache_creation_tokens",
        ),
        names=AttributeNames(
            input=("user_prompt", "gen_ai.input.messages", "new_context"),
            output=("gen_ai.output.messages", "response.model_output"),
            system=("user_system_prompt",),
            tool_name=("tool_name", "gen_ai.tool.name", "tool.name"),
            tool_id=("gen_ai.tool.call.id", "tool_use_id", "tool.id"),
            arguments=("tool_input", "gen_ai.tool.call.arguments", "tool.input"),
            result=("gen_ai.tool.call.result", "tool.output", "new_context"),
            request_model=("gen_ai.request.model", "model"),
            input_tokens=("input_tokens", "gen_ai.usage.input_tokens"),
            output_tokens=("output_tokens", "gen_ai.usage.output_tokens"),
            cache_tokens=("cache_read_tokens",),
            agent_name=("gen_ai.agent.name", "subagent.name", "subagent.type"),
            error=("error", "error.message"),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    """Told by the span's type, which older versions write with a prefix, else by the span's name."""
    told = span.attributes.get("span.type")
    kind = _KINDS.get(told.removeprefix(_OWN)) if isinstance(told, str) else None
    if kind is None and span.name.startswith(_OWN):
        kind = _KINDS.get(span.name.removeprefix(_OWN), OperationKind.OTHER)
    if kind is OperationKind.TOOL and span.name.endswith(".execution"):
        # Older versions tell no more there than how long the call of the span above took.
        return OperationKind.OTHER if _IDENTITY.isdisjoint(span.attributes) else kind
    return kind or (OperationKind.OTHER if isinstance(told, str) else None)


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    if kind is OperationKind.TOOL:
        _read_tool(reader)
    elif kind is not OperationKind.OTHER:
        for side in ("input_messages", "output_messages"):
            reader.fields[side] = tuple(map(_without_labels, reader.fields[side]))
    if kind is OperationKind.AGENT:
        _read_interaction(reader)
    elif kind is OperationKind.INFERENCE:
        _count_cache(reader)
        model = reader.fields.get("request_model")
        if model is not None:
            reader.fields["request_model"] = _TERMINAL.sub("", model)
    return kind


def _without_labels(message: Message) -> Message:
    if not any(part.text and part.text[0] == "[" for part in message.parts):
        return message
    result = _RESULT.match(message.text)
    if result is not None:  # what a model was given next, after a tool
        part = Part(
            kind="tool_result", data=unmasked(message.text[result.end() :]), tool_call_id=result[1] or None
        )
        return Message(role="tool", parts=(part,))
    return replace(
        message, parts=tuple(replace(p, text=_unlabelled(p.text)) if p.text else p for p in message.parts)
    )


def _unlabelled(value: Any) -> Any:
    """A content without the label before it, and None where all that is left is a mask."""
    if not isinstance(value, str):
        return value
    label = _LABEL.match(value)
    return unmasked(value[label.end() :] if label else value)


def _events(span: SpanRecord) -> Iterator[tuple[str, SpanEvent]]:
    for event in (*span.events, *span.logs):
        name = event.attributes.get("event.name") or event.name
        yield str(name).removeprefix("claude_code."), event


def _read_interaction(reader: SpanReader) -> None:
    """The answer and the tools' inputs come as log records of the interaction."""
    outputs: list[Message] = []
    for name, event in _events(reader.span):
        attributes = event.attributes
        if name == "user_prompt" and not reader.fields.get("input_messages"):
            text = attributes.get("prompt")
            if isinstance(text, str) and text and not is_masked(text):
                reader.fields["input_messages"] = (_said("user", text),)
                reader.note("input", "user_prompt")
        elif name == "tool_result" and attributes.get("tool_input") is not None:
            part = Part(
                kind="tool_call",
                data=parse(attributes["tool_input"]),
                tool_call_id=str(attributes.get("tool_use_id") or "") or None,
                name=_tool_name(attributes),
            )
            outputs.append(Message(role="assistant", parts=(part,)))
        elif name == "assistant_response":
            text = attributes.get("response")
            if isinstance(text, str) and text and not is_masked(text):
                outputs.append(_said("assistant", text))
                reader.note("output", "assistant_response")
    if outputs:
        reader.fields["output_messages"] = tuple(outputs)


def _tool_name(attributes: Mapping[str, Any]) -> str:
    """Logs call every MCP tool `mcp_tool`; its server and its name stand in the parameters."""
    parameters = parse(attributes.get("tool_parameters"))
    if isinstance(parameters, dict) and parameters.get("mcp_tool_name"):
        return f"mcp__{parameters.get('mcp_server_name')}__{parameters['mcp_tool_name']}"
    return str(attributes.get("tool_name") or "tool")


def _said(role: str, text: str) -> Message:
    return Message(role=role, parts=(Part(kind="text", text=text),))


def _read_tool(reader: SpanReader) -> None:
    """The result stands in a span event; what it and the arguments are is written before them."""
    call: ToolCall = reader.fields["tool_call"]
    call = replace(call, arguments=parse(_unlabelled(call.arguments)), result=parse(_unlabelled(call.result)))
    failed = reader.attributes.get("success") in (False, "false") or reader.attributes.get(
        "tool.is_error"
    ) in (True, "true")
    for name, event in _events(reader.span):
        if name == "tool.output" and call.result is None:
            keys = ("output", "content", "result", "diff")
            output = next((event.attributes[k] for k in keys if event.attributes.get(k) is not None), None)
            if output is not None and not is_masked(output):
                value, said = result_of(_unlabelled(output))
                call = replace(call, result=value, status="error" if said or failed else "ok")
                reader.note("tool_results", "tool.output")
    if failed:
        told = call.result if isinstance(call.result, str) else None
        known = call.error if call.error not in (None, "error", call.error_type) else told or call.error
        call = replace(call, status="error", error=known)
    reader.fields["tool_call"] = call


def _count_cache(reader: SpanReader) -> None:
    """Anthropic counts cached tokens apart from the input; OpenTelemetry counts them in."""
    usage = reader.fields.get("usage")
    if usage is not None:
        written = reader.attributes.get("cache_creation_tokens")
        more = usage.cache_read_tokens + (written if isinstance(written, int) else 0)
        reader.fields["usage"] = replace(usage, input_tokens=usage.input_tokens + more)
