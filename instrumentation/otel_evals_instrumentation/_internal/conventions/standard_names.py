"""Instrumentations that keep to OpenTelemetry's names: OpenLIT, MCP and Koog."""

from __future__ import annotations

import re

from otel_evals.model import Message, OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import SpanConvention
from otel_evals_instrumentation._internal.readers.inputs_outputs import read_system
from otel_evals_instrumentation._internal.readers.parts import text_message
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import unmasked
from otel_evals_instrumentation._internal.readers.vocabulary import kind_named, role_of, words

# --- OpenLIT: OpenTelemetry's names; until 2025 a conversation was one text with a role before each line ---


_LINES = re.compile(r"^(system|developer|user|human|assistant|ai|model|tool): ?", re.MULTILINE)


def openlit() -> SpanConvention:
    """Return the convention of OpenLIT's instrumentations."""
    return SpanConvention(
        name="openlit",
        content="on unless `capture_message_content` is false",
        scopes=("openlit",),
        kind_of=_openlit_kind,
        read_prompt=_read_prompt,
    )


def _openlit_kind(span: SpanRecord) -> OperationKind | None:
    """Return the kind of a failed model call, whose span may have nothing but its name."""
    failed = span.status == "ERROR" and span.name.startswith("chat ") and not span.attributes
    return OperationKind.INFERENCE if failed else None


def _read_prompt(reader: SpanReader) -> None:
    """Split a prompt with roles into messages; other texts are the user's."""
    prompt = str(reader.attributes["gen_ai.prompt"])
    if _LINES.match(prompt):
        messages = reader.fields["input_messages"] = _conversation(prompt)
        read_system(reader, messages)


def _conversation(text: str) -> tuple[Message, ...]:
    """Split a text such as `user: Hello`, where each message ends at the next role."""
    starts = list(_LINES.finditer(text))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return tuple(
        text_message(role_of(start[1]), unmasked(text[start.end() : end].removesuffix("\n")))
        for start, end in zip(starts, ends, strict=True)
    )


# --- MCP clients and servers: both ends of a tool call, mostly without its content ---


def mcp() -> SpanConvention:
    """Return the convention of MCP's SDK and of fastmcp."""
    return SpanConvention(
        name="mcp",
        content="none: this instrumentation records no content",
        scopes=words("mcp-python-sdk fastmcp mcp. @modelcontextprotocol/"),
        markers=("mcp.method.name",),
        names=AttributeNames(
            tool_name="gen_ai.tool.name mcp.tool.name fastmcp.component.key",
            arguments="gen_ai.tool.call.arguments mcp.request.argument mcp.request.params",
            result="gen_ai.tool.call.result mcp.response.value mcp.tool.result",
            conversation_id="gen_ai.conversation.id mcp.session.id",
        ),
        kind_of=lambda span: kind_named(span.attributes.get("mcp.method.name", "")),
    )


# --- Koog ---


def koog() -> SpanConvention:
    """Return the convention of Koog, whose scope is the service's name."""
    return SpanConvention(
        name="koog",
        content="off; `setVerbose(true)` of the feature `OpenTelemetry`",
        markers=words("koog.event.id koog.node.id koog.strategy.name"),
    )
