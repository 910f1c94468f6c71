"""Claude Code's own telemetry (beta): the prompt on the interaction, the rest in span events and logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from otel_evals.dialect import Dialect
from otel_evals.model import Message, OperationKind, Part, SpanEvent, SpanRecord
from otel_evals_instrumentation.convention import Convention, Names, Reading
from otel_evals_instrumentation.unwrap import result_of
from otel_evals_instrumentation.values import is_masked, parse

__all__ = ["claude_code"]

_KINDS = {
    "interaction": OperationKind.AGENT,
    "llm_request": OperationKind.INFERENCE,
    "tool": OperationKind.TOOL,
    "tool.execution": OperationKind.TOOL,
}


def claude_code() -> Dialect:
    """The dialect of the Claude Code command line."""
    return Convention(
        name="claude_code",
        scopes=("com.anthropic.claude_code",),
        names=Names(
            input=("user_prompt",),
            tool_name=("tool_name", "gen_ai.tool.name"),
            tool_id=("gen_ai.tool.call.id", "tool_use_id"),
            arguments=("tool_input", "gen_ai.tool.call.arguments"),
            request_model=("gen_ai.request.model", "model"),
            input_tokens=("input_tokens",),
            output_tokens=("output_tokens",),
            cache_tokens=("cache_read_tokens",),
            error=("error", "error.message"),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    kind = span.attributes.get("span.type")
    return _KINDS.get(kind, OperationKind.OTHER) if isinstance(kind, str) else None


def _refine(reading: Reading, kind: OperationKind) -> OperationKind:
    if kind is OperationKind.AGENT:
        _read_interaction(reading)
    elif kind is OperationKind.TOOL:
        _read_output(reading)
    elif kind is OperationKind.INFERENCE:
        _count_cache(reading)
    return kind


def _events(span: SpanRecord) -> Iterator[tuple[str, SpanEvent]]:
    for event in (*span.events, *span.logs):
        name = event.attributes.get("event.name") or event.name
        yield str(name).removeprefix("claude_code."), event


def _read_interaction(reading: Reading) -> None:
    """The answer and the tools' inputs come as log records of the interaction."""
    outputs: list[Message] = []
    for name, event in _events(reading.span):
        attributes = event.attributes
        if name == "user_prompt" and not reading.fields.get("input_messages"):
            text = attributes.get("prompt")
            if isinstance(text, str) and text and not is_masked(text):
                reading.fields["input_messages"] = (_said("user", text),)
                reading.note("input", "user_prompt")
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
                reading.note("output", "assistant_response")
    if outputs:
        reading.fields["output_messages"] = tuple(outputs)


def _tool_name(attributes: Mapping[str, Any]) -> str:
    """Logs call every MCP tool `mcp_tool`; its server and its name stand in the parameters."""
    parameters = parse(attributes.get("tool_parameters"))
    if isinstance(parameters, dict) and parameters.get("mcp_tool_name"):
        return f"mcp__{parameters.get('mcp_server_name')}__{parameters['mcp_tool_name']}"
    return str(attributes.get("tool_name") or "tool")


def _said(role: str, text: str) -> Message:
    return Message(role=role, parts=(Part(kind="text", text=text),))


def _read_output(reading: Reading) -> None:
    from dataclasses import replace

    call = reading.fields["tool_call"]
    failed = reading.attributes.get("success") in (False, "false")
    for name, event in _events(reading.span):
        if name == "tool.output" and call.result is None:
            output = next(
                (
                    event.attributes[k]
                    for k in ("output", "content", "result")
                    if event.attributes.get(k) is not None
                ),
                None,
            )
            if output is not None:
                value, said = result_of(output)
                call = replace(call, result=value, status="error" if said or failed else "ok")
                reading.note("tool_results", "tool.output")
    reading.fields["tool_call"] = replace(call, status="error") if failed else call


def _count_cache(reading: Reading) -> None:
    """Anthropic counts cached tokens apart from the input; OpenTelemetry counts them in."""
    from dataclasses import replace

    usage = reading.fields.get("usage")
    if usage is not None:
        written = reading.attributes.get("cache_creation_tokens")
        more = usage.cache_read_tokens + (written if isinstance(written, int) else 0)
        reading.fields["usage"] = replace(usage, input_tokens=usage.input_tokens + more)
