"""MCP clients and servers: both ends of a tool call, mostly without its content."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention


def mcp() -> Convention:
    """Return the dialect of MCP's SDK and of fastmcp."""
    return Convention(
        name="mcp",
        scopes=("mcp-python-sdk", "fastmcp", "mcp.", "@modelcontextprotocol/"),
        markers=("mcp.method.name",),
        names=AttributeNames(
            tool_name=("gen_ai.tool.name", "mcp.tool.name", "fastmcp.component.key"),
            arguments=("gen_ai.tool.call.arguments", "mcp.request.argument", "mcp.request.params"),
            result=("gen_ai.tool.call.result", "mcp.response.value", "mcp.tool.result"),
            conversation_id=("gen_ai.conversation.id", "mcp.session.id"),
        ),
        kind_of=_kind,
    )


def _kind(span: SpanRecord) -> OperationKind | None:
    method = span.attributes.get("mcp.method.name")
    return OperationKind.TOOL if method == "tools/call" else OperationKind.OTHER
