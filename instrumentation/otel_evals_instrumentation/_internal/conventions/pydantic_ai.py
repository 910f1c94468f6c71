"""pydantic-ai's own instrumentation, versions 1 to 6 of its format."""

from __future__ import annotations

from otel_evals.dialects import Dialect
from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import Convention
from otel_evals_instrumentation._internal.readers.inputs_outputs import take_answer
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader

_CONVERSATIONS = ("pydantic_ai.all_messages", "all_messages_events")


def pydantic_ai() -> Dialect:
    """The dialect of spans that pydantic-ai writes."""
    return Convention(
        name="pydantic_ai",
        scopes=("pydantic-ai",),
        markers=("pydantic_ai.all_messages", "all_messages_events"),
        names=AttributeNames(
            input=("pydantic_ai.all_messages", "all_messages_events", "gen_ai.input.messages", "events"),
            output=("gen_ai.output.messages", "events", "all_messages_events"),
            answer=("final_result",),
            arguments=("tool_arguments",),
            result=("tool_response",),
            agent_name=("gen_ai.agent.name", "agent_name"),
            request_model=("gen_ai.request.model", "model_name"),
            input_tokens=("gen_ai.usage.input_tokens", "gen_ai.aggregated_usage.input_tokens"),
            output_tokens=("gen_ai.usage.output_tokens", "gen_ai.aggregated_usage.output_tokens"),
            new_messages_from=("pydantic_ai.new_message_index",),
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """An agent's messages are the whole conversation: what the assistant said at its end is the answer."""
    source = reader.sources.get("input")
    if kind is OperationKind.AGENT and source is not None and source.key in _CONVERSATIONS:
        take_answer(reader)
    return kind


def _kind(span: SpanRecord) -> OperationKind | None:
    attributes = span.attributes
    if "gen_ai.operation.name" in attributes:
        return None
    if "gen_ai.tool.name" in attributes:
        return OperationKind.TOOL
    agent = (
        "agent_name" in attributes
        or "pydantic_ai.all_messages" in attributes
        or "all_messages_events" in attributes
    )
    return OperationKind.AGENT if agent else None
