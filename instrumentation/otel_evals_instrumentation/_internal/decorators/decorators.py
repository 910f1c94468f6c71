"""Spans of hand-written agents, in OpenTelemetry's current GenAI conventions.

Each name is a context manager, and a decorator, with or without arguments, of functions, methods, coroutines
and generators of both kinds. Content is recorded only if `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`
or `capture_content` enables it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar, Unpack, overload

from opentelemetry.trace import TracerProvider

from otel_evals import semconv
from otel_evals_instrumentation._internal.decorators.span_factory import SpanFactory
from otel_evals_instrumentation._internal.decorators.spans import (
    AgentSpan,
    InferenceSpan,
    RetrievalSpan,
    ToolSpan,
    WorkflowSpan,
)

_F = TypeVar("_F", bound=Callable[..., Any])


class Options(TypedDict, total=False):
    """Options of all kinds of spans."""

    attributes: Mapping[str, Any]
    """More attributes of each span, set when it starts."""
    capture_content: bool | None
    """Record content on spans; None uses the environment variable."""
    tracer_provider: TracerProvider
    """Provider of the spans; the global one by default."""


class InputOptions(Options, total=False):
    """Options of spans with an input."""

    input_from: str | None
    """Parameter of the decorated function with the input, such as the user's question. By default: the only
    parameter, the first with a usual name (`question`, `messages`, ...), or all as JSON."""


@overload
def agent(function: _F, /) -> _F: ...
@overload
def agent(
    name: str | None = None,
    /,
    *,
    id: str | None = None,
    version: str | None = None,
    description: str | None = None,
    conversation_id: str | None = None,
    **options: Unpack[InputOptions],
) -> SpanFactory[AgentSpan]: ...
def agent(
    function: Any = None,
    /,
    *,
    id: str | None = None,
    version: str | None = None,
    description: str | None = None,
    conversation_id: str | None = None,
    **options: Unpack[InputOptions],
) -> Any:
    """Record an invocation of an agent: `invoke_agent {name}`.

    Args:
        function: the agent's name, or the function to decorate, whose name is used.
        id: the agent's id.
        version: the agent's version.
        description: the agent's purpose.
        conversation_id: id of the conversation, if it is known by now.
        options: `input_from`, `attributes`, `capture_content`, `tracer_provider`.
    """
    known = {
        semconv.GEN_AI_AGENT_ID: id,
        semconv.GEN_AI_AGENT_VERSION: version,
        semconv.GEN_AI_AGENT_DESCRIPTION: description,
        semconv.GEN_AI_CONVERSATION_ID: conversation_id,
    }
    return SpanFactory(AgentSpan, "invoke_agent", known=known, **options).given(function)


@overload
def workflow(function: _F, /) -> _F: ...
@overload
def workflow(
    name: str | None = None, /, *, conversation_id: str | None = None, **options: Unpack[InputOptions]
) -> SpanFactory[WorkflowSpan]: ...
def workflow(
    function: Any = None, /, *, conversation_id: str | None = None, **options: Unpack[InputOptions]
) -> Any:
    """Record a group of steps or agents: `invoke_workflow {name}`.

    Args:
        function: the workflow's name, or the function to decorate, whose name is used.
        conversation_id: id of the conversation, if it is known by now.
        options: as for `agent`.
    """
    known = {semconv.GEN_AI_CONVERSATION_ID: conversation_id}
    return SpanFactory(WorkflowSpan, "invoke_workflow", known=known, **options).given(function)


@overload
def inference(function: _F, /) -> _F: ...
@overload
def inference(
    model: str | None = None,
    /,
    *,
    provider: str | None = None,
    operation: str = "chat",
    **options: Unpack[InputOptions],
) -> SpanFactory[InferenceSpan]: ...
def inference(
    function: Any = None,
    /,
    *,
    provider: str | None = None,
    operation: str = "chat",
    **options: Unpack[InputOptions],
) -> Any:
    """Record a call of a model: `chat {model}`.

    A decorated function that returns a provider's reply, or yields its chunks, needs nothing more: answer,
    model, tokens and finish reason are read from the reply.

    Args:
        function: the requested model, or the function to decorate.
        provider: the model's provider by its name in OpenTelemetry: `openai`, `anthropic`, `aws.bedrock`, ...
        operation: `chat`, `generate_content` or `text_completion`.
        options: as for `agent`.
    """
    known = {semconv.GEN_AI_PROVIDER_NAME: provider}
    return SpanFactory(InferenceSpan, operation, known=known, **options).given(function)


@overload
def tool(function: _F, /) -> _F: ...
@overload
def tool(
    name: str | None = None,
    /,
    *,
    id: str | None = None,
    description: str | None = None,
    **options: Unpack[Options],
) -> SpanFactory[ToolSpan]: ...
def tool(
    function: Any = None,
    /,
    *,
    id: str | None = None,
    description: str | None = None,
    **options: Unpack[Options],
) -> Any:
    """Record a call of a tool: `execute_tool {name}`.

    Args:
        function: the tool's name, or the function to decorate, whose name is used.
        id: the model's id of the call, for the context manager.
        description: the tool's purpose.
        options: as for `agent`, except `input_from`.
    """
    known = {
        semconv.GEN_AI_TOOL_TYPE: "function",
        semconv.GEN_AI_TOOL_CALL_ID: id,
        semconv.GEN_AI_TOOL_DESCRIPTION: description,
    }
    return SpanFactory(ToolSpan, "execute_tool", known=known, **options).given(function)


@overload
def retrieval(function: _F, /) -> _F: ...
@overload
def retrieval(
    data_source: str | None = None, /, **options: Unpack[InputOptions]
) -> SpanFactory[RetrievalSpan]: ...
def retrieval(function: Any = None, /, **options: Unpack[InputOptions]) -> Any:
    """Record a search for documents: `retrieval {data source}`.

    Args:
        function: the data source's id, or the function to decorate.
        options: as for `agent`; `input_from` is the query.
    """
    return SpanFactory(RetrievalSpan, "retrieval", **options).given(function)
