"""LlamaIndex as Traceloop instruments it: every step is a task, and its output shows the kind."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from otel_evals.model import OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.values import parse

SCOPE = "opentelemetry.instrumentation.llamaindex"
"""The scope of Traceloop's instrumentation of LlamaIndex."""

_INPUT, _OUTPUT = "traceloop.entity.input", "traceloop.entity.output"


def _decoded(value: Any) -> Any:
    """Decode a value that the library and its instrumentation both encoded as JSON."""
    return parse(parse(value))


def kind_of_step(span: SpanRecord) -> OperationKind | None:
    """Return the kind of a step; None to use OpenTelemetry's names."""
    attributes = span.attributes
    if "gen_ai.operation.name" in attributes:
        return None
    gave = _decoded(attributes.get(_OUTPUT))
    if isinstance(gave, dict):
        if "tool_name" in gave and ("tool_output" in gave or "raw_output" in gave):
            return OperationKind.TOOL
        if "raw" in gave and ("message" in gave or "text" in gave):
            return OperationKind.INFERENCE
        if _ending(gave) is not None:
            return OperationKind.WORKFLOW
    elif isinstance(gave, list) and gave:
        first = parse(gave[0])
        if isinstance(first, dict) and "node" in first:
            return OperationKind.RETRIEVAL
    elif gave is None:
        given = _decoded(attributes.get(_INPUT))
        if isinstance(given, dict) and isinstance(given.get("messages"), list):
            return OperationKind.INFERENCE
    kind = attributes.get("traceloop.span.kind")
    return OperationKind.WORKFLOW if kind == "workflow" else OperationKind.OTHER


def _ending(gave: Any) -> Any:
    """Return the response in the event at the end of a workflow."""
    result = gave.get("result") if isinstance(gave, dict) else None
    return result.get("response") if isinstance(result, dict) else None


def read_step(reader: SpanReader) -> None:
    """Read output that is JSON twice; a tool's result contains its name, id and arguments."""
    gave = _decoded(reader.attributes.get(_OUTPUT))
    call = reader.fields.get("tool_call")
    if call is not None and isinstance(gave, dict):
        given, call_id = gave.get("tool_kwargs"), gave.get("tool_id")
        name = reader.fields["name"] = str(gave.get("tool_name"))
        reader.fields["tool_call"] = replace(
            call,
            name=name,
            id=call_id if isinstance(call_id, str) else call.id,
            arguments=call.arguments if given is None else given,
        )
    if isinstance(gave, dict):
        reader.offer("agent_name", gave.get("current_agent_name"))  # of a step: the first is asked first
        result = gave.get("result")
        last = result.get("current_agent_name") if isinstance(result, dict) else None
        if isinstance(last, str) and last:
            reader.fields["name"] = last
    if reader.source_of("output") == _OUTPUT and isinstance(gave, (dict, list)):
        reader.fields["output_messages"] = read_messages(_ending(gave) or gave, "assistant")
