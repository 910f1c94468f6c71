"""pydantic-ai's own instrumentation, format versions 1 to 6."""

from __future__ import annotations

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames
from otel_evals_instrumentation._internal.readers.convention import SpanConvention
from otel_evals_instrumentation._internal.readers.inputs_outputs import take_answer
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader

_CONVERSATIONS = ("pydantic_ai.all_messages", "all_messages_events")
_OF_AGENTS = frozenset(("agent_name", *_CONVERSATIONS))


def pydantic_ai() -> SpanConvention:
    """Return the convention of pydantic-ai."""
    return SpanConvention(
        name="pydantic_ai",
        content="on unless `InstrumentationSettings(include_content=False)`",
        scopes=("pydantic-ai",),
        markers=_CONVERSATIONS,
        names=AttributeNames(
            input="pydantic_ai.all_messages all_messages_events gen_ai.input.messages events",
            output="gen_ai.output.messages events all_messages_events",
            answer="final_result",
            agent_name="gen_ai.agent.name agent_name",
            request_model="gen_ai.request.model model_name",
            input_tokens="gen_ai.usage.input_tokens gen_ai.aggregated_usage.input_tokens",
            output_tokens="gen_ai.usage.output_tokens gen_ai.aggregated_usage.output_tokens",
            new_messages_from="pydantic_ai.new_message_index",
        ),
        kind_of=_kind,
        refine=_refine,
    )


def _refine(reader: SpanReader, kind: OperationKind) -> OperationKind:
    """Take the answer from the end of an agent's messages, which are the whole conversation."""
    if kind is not OperationKind.AGENT:
        return kind
    if reader.source_of("output") == "final_result":
        gave = reader.mapping("final_result")
        if {"calls", "approvals"} <= gave.keys():  # `DeferredToolRequests`, and no answer
            reader.fields["output_messages"], reader.fields["paused"] = (), True
            reader.noted.pop("output")
            return kind
    take_answer(reader)
    return kind


def _kind(span: SpanRecord) -> OperationKind | None:
    if "gen_ai.operation.name" in span.attributes:
        return None
    return None if _OF_AGENTS.isdisjoint(span.attributes) else OperationKind.AGENT
