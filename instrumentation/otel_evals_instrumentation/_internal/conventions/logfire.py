"""Logfire's own integrations: OpenAI and Anthropic clients, OpenAI Agents. Templates have the kind."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import SpanConvention
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import first_text, mapping
from otel_evals_instrumentation._internal.readers.vocabulary import kind_by_start, kinds, words

# By the beginning of a template; the first that matches counts.
_TEMPLATES = kinds(
    workflow="OpenAI",
    agent="Agent",
    tool="Function",
    inference="Responses Chat Completion Message streaming",
    embedding="Embedding",
)
_CLIENTS = ("logfire.openai", "logfire.anthropic")
_ANSWERS = frozenset(("gen_ai.output.messages", "response_data", "gen_ai.usage.output_tokens", "duration"))


def logfire() -> SpanConvention:
    """Return the convention of Logfire's integrations; pydantic-ai has its own."""
    return SpanConvention(
        name="logfire",
        scopes=words("logfire.openai logfire.anthropic logfire.claude logfire.google"),
        markers=("agent_trace_id",),
        names=AttributeNames(
            input="gen_ai.input.messages raw_input events input request_data",
            output="gen_ai.output.messages response output events response_data",
            tool_name="gen_ai.tool.name name",
            agent_name="gen_ai.agent.name name",
            conversation_id="group_id",
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _is_opened(span: SpanRecord) -> bool:
    """Return True for the beginning of a streamed call, which has another span when it ends."""
    if span.status == "ERROR" or not _ANSWERS.isdisjoint(span.attributes):
        return False
    if span.scope_name in _CLIENTS and "gen_ai.input.messages" in span.attributes:
        return True  # the newest format omits the request, and an answered call has its answer
    return mapping(span.attributes.get("request_data")).get("stream") is True


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Read the errors of OpenAI Agents: an error has a general message and a cause."""
    if kind is not OperationKind.AGENT and "gen_ai.agent.name" not in reader.attributes:
        reader.fields.pop("agent_name", None)  # the name is a workflow's or a tool's
    error = reader.mapping("error")
    if error:
        text = first_text(mapping(error.get("data")), ("error",)) or str(error.get("message"))
        reader.fields["error"] = text
        if kind is OperationKind.TOOL:
            reader.change_call(error=text, status="error")
    return kind


def _kind(span: SpanRecord) -> OperationKind | None:
    template = str(span.attributes.get("logfire.msg_template", span.name))
    if _is_opened(span):
        return OperationKind.OTHER
    known = kind_by_start(template, _TEMPLATES)
    if known is None and "gen_ai.operation.name" not in span.attributes:
        return OperationKind.OTHER
    return known
