"""OpenAI's Codex command line: `codex.turn.*` on spans, prompts and tools' results in log records."""

from __future__ import annotations

from typing import Any

from otel_evals.model import Message, OperationKind, Part, SpanEvent, SpanRecord, Usage
from otel_evals_instrumentation._internal.readers.convention import AttributeNames, Convention, SpanReader
from otel_evals_instrumentation._internal.readers.parts import text_message
from otel_evals_instrumentation._internal.readers.values import first_text, parse

_TOKENS = "codex.turn.token_usage."
_KINDS = {"session_task.turn": OperationKind.AGENT, "handle_responses": OperationKind.INFERENCE}


def codex() -> Convention:
    """Return the dialect of interactive Codex and of `codex exec`."""
    return Convention(
        name="codex",
        scopes=("codex_cli_rs", "codex_exec", "codex_core", "codex_otel"),
        markers=(_TOKENS + "input_tokens", "codex.turn.reasoning_effort"),
        names=AttributeNames(
            request_model=("model",),
            input_tokens=(_TOKENS + "input_tokens",),
            output_tokens=(_TOKENS + "output_tokens",),
            cache_tokens=(_TOKENS + "cached_input_tokens",),
            reasoning_tokens=(_TOKENS + "reasoning_output_tokens", "codex.usage.reasoning_output_tokens"),
            conversation_id=("conversation.id", "thread.id"),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    if "gen_ai.operation.name" in span.attributes:
        return None
    kind = _KINDS.get(span.name)
    if kind is None and "gen_ai.usage.input_tokens" in span.attributes:
        return OperationKind.INFERENCE
    is_other = span.logs or "codex.turn.reasoning_effort" in span.attributes
    return kind or (OperationKind.OTHER if is_other else None)


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read the prompt, the tool calls and their results from log records."""
    if kind is OperationKind.TOOL:
        return kind
    asked: list[Message] = []
    said: list[Message] = []
    for event in (*reader.span.logs, *reader.span.events):
        name = str(event.attributes.get("event.name") or event.name)
        if name == "codex.user_prompt":
            text = first_text(event.attributes, ("prompt",))
            if text is not None:
                asked.append(text_message("user", text))
        elif name == "codex.tool_result" and event.attributes.get("tool_name"):
            said.extend(_tool(event))
        elif name == "codex.sse_event":
            _read_counts(reader, event)
    if asked and not reader.fields.get("input_messages"):
        reader.fields["input_messages"] = tuple(asked)
        reader.note("input", "codex.user_prompt")
    if said:
        reader.fields["output_messages"] = (*said, *reader.fields.get("output_messages", ()))
        reader.note("output", "codex.tool_result")
    return kind


def _read_counts(reader: SpanReader, event: SpanEvent) -> None:
    """Add the tokens of a response, unless the span has its own, and read the model."""
    given, said, cached, thought = (
        _number(event.attributes.get(name + "_token_count"))
        for name in ("input", "output", "cached", "reasoning")
    )
    if (given or said) and "input_tokens" not in reader.found_at:
        more = Usage(
            input_tokens=given, output_tokens=said, cache_read_tokens=cached, reasoning_tokens=thought
        )
        reader.fields["usage"] = reader.fields.get("usage", Usage()) + more
    reader.offer("request_model", event.attributes.get("model"))
    reader.offer("conversation_id", event.attributes.get("conversation.id"))


def _number(value: Any) -> int:
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _tool(event: SpanEvent) -> list[Message]:
    attributes = event.attributes
    common: dict[str, Any] = {
        "tool_call_id": str(attributes.get("call_id") or "") or None,
        "name": str(attributes["tool_name"]),
    }
    call = Part(kind="tool_call", data=parse(attributes.get("arguments")), **common)
    failed = str(attributes.get("success")).lower() == "false"
    result = Part(kind="tool_result", data=parse(attributes.get("output")), failed=failed, **common)
    return [Message(role="assistant", parts=(call,)), Message(role="tool", parts=(result,))]
