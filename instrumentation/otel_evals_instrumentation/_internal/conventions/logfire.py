"""Logfire's own integrations: OpenAI and Anthropic clients, OpenAI Agents. The template tells the kind."""

from __future__ import annotations

from msgspec.structs import replace

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import parse

_TEMPLATES = (
    ("OpenAI Agents trace", OperationKind.WORKFLOW),
    ("Agent run", OperationKind.AGENT),
    ("Function", OperationKind.TOOL),
    ("Responses API", OperationKind.INFERENCE),
    ("Chat Completion", OperationKind.INFERENCE),
    ("Chat completion", OperationKind.INFERENCE),
    ("Completion with", OperationKind.INFERENCE),
    ("Message with", OperationKind.INFERENCE),
    ("streaming response from", OperationKind.INFERENCE),
    ("Embedding Creation", OperationKind.EMBEDDING),
)


_CLIENTS = ("logfire.openai", "logfire.anthropic")
_ANSWERS = frozenset(("gen_ai.output.messages", "response_data", "gen_ai.usage.output_tokens"))


def logfire() -> Dialect:
    """The dialect of Logfire's integrations; agents traced with pydantic-ai have their own."""
    return Convention(
        name="logfire",
        scopes=("logfire.openai", "logfire.anthropic", "logfire.claude", "logfire.google"),
        markers=("agent_trace_id",),
        names=AttributeNames(
            input=("gen_ai.input.messages", "raw_input", "events", "input", "request_data"),
            output=("gen_ai.output.messages", "response", "output", "events", "response_data"),
            tool_name=("gen_ai.tool.name", "name"),
            arguments=("input",),
            result=("output",),
            agent_name=("gen_ai.agent.name", "name"),
            conversation_id=("group_id",),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _is_opened(span: SpanRecord) -> bool:
    """Whether a span is the beginning of a streamed call, which another span tells when it has ended."""
    if "duration" in span.attributes or span.status == "ERROR":
        return False
    if not _ANSWERS.isdisjoint(span.attributes):
        return False
    told = span.attributes.get("request_data")
    if span.scope_name in _CLIENTS and "gen_ai.input.messages" in span.attributes:
        return True  # its newest format leaves the request out, and a call that was answered tells the answer
    request = parse(told) if isinstance(told, str) and '"stream"' in told else None
    return isinstance(request, dict) and request.get("stream") is True


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Errors of OpenAI Agents are an object: a general message, and what happened below it."""
    error = parse(reader.attributes.get("error"))
    if isinstance(error, dict):
        data = error.get("data")
        told = data.get("error") if isinstance(data, dict) else None
        text = told if isinstance(told, str) else str(error.get("message"))
        reader.fields["error"] = text
        call = reader.fields.get("tool_call")
        if call is not None:
            reader.fields["tool_call"] = replace(call, error=text, status="error")
    return kind


def _kind(span: SpanRecord) -> OperationKind | None:
    template = span.attributes.get("logfire.msg_template", span.name)
    if _is_opened(span):
        return OperationKind.OTHER
    if isinstance(template, str):
        for start, kind in _TEMPLATES:
            if template.startswith(start):
                return kind
    return None if "gen_ai.operation.name" in span.attributes else OperationKind.OTHER
