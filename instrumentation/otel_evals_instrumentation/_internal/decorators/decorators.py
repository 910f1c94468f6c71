"""Spans of hand-written agents, in OpenTelemetry's current GenAI conventions.

    from otel_evals_instrumentation import agent, inference, tool

    @tool
    def find_order(order_id: str) -> dict[str, str]: ...

    @agent("support")
    def answer(question: str) -> str:
        with inference("gpt-5-mini", provider="openai") as call:
            call.set_input(question)
            reply = client.chat.completions.create(...)
            call.set_reply(reply)
        ...

Each name is a decorator, with and without arguments, of functions, methods, coroutines and generators of both
kinds, and a context manager. What was said and done is recorded where
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` or `capture_content` says so, else nowhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict, TypeVar, Unpack, overload

from opentelemetry._logs import LoggerProvider
from opentelemetry.trace import SpanKind, TracerProvider

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
    """What all kinds of spans can be told."""

    attributes: Mapping[str, Any]
    """More attributes, put on each span when it starts."""
    capture_content: bool | None
    """Whether content is recorded on spans; None leaves it to the environment."""
    tracer_provider: TracerProvider
    """The provider whose spans these are; the global one by default."""
    logger_provider: LoggerProvider
    """Where content goes that the environment wants in events; the global one by default."""


@overload
def agent(function: _F, /) -> _F: ...
@overload
def agent(
    name: str | None = None,
    /,
    *,
    input_from: str | None = None,
    id: str | None = None,
    version: str | None = None,
    description: str | None = None,
    conversation_id: str | None = None,
    **options: Unpack[Options],
) -> SpanFactory[AgentSpan]: ...
def agent(
    function: Any = None,
    /,
    *,
    input_from: str | None = None,
    id: str | None = None,
    version: str | None = None,
    description: str | None = None,
    conversation_id: str | None = None,
    **options: Unpack[Options],
) -> Any:
    """One invocation of an agent: `invoke_agent {name}`.

    Args:
        function: the agent's name, or the function to decorate, whose name is taken.
        input_from: which parameter of the decorated function is the user's input. Without it: the only
            one, or the first that is called so (`question`, `messages`, ...), or all as JSON.
        id: the agent's id.
        version: the agent's version.
        description: what the agent is for.
        conversation_id: which conversation this belongs to, if it is known by now.
        options: see `Options`.
    """
    known = {
        semconv.GEN_AI_AGENT_ID: id,
        semconv.GEN_AI_AGENT_VERSION: version,
        semconv.GEN_AI_AGENT_DESCRIPTION: description,
        semconv.GEN_AI_CONVERSATION_ID: conversation_id,
    }
    made = SpanFactory(
        AgentSpan, "invoke_agent", semconv.GEN_AI_AGENT_NAME, known=known, input_from=input_from, **options
    )
    return made.given(function)


@overload
def workflow(function: _F, /) -> _F: ...
@overload
def workflow(
    name: str | None = None,
    /,
    *,
    input_from: str | None = None,
    conversation_id: str | None = None,
    **options: Unpack[Options],
) -> SpanFactory[WorkflowSpan]: ...
def workflow(
    function: Any = None,
    /,
    *,
    input_from: str | None = None,
    conversation_id: str | None = None,
    **options: Unpack[Options],
) -> Any:
    """Steps or agents that belong together: `invoke_workflow {name}`.

    Args:
        function: the workflow's name, or the function to decorate, whose name is taken.
        input_from: which parameter of the decorated function is the input; see `agent`.
        conversation_id: which conversation this belongs to, if it is known by now.
        options: see `Options`.
    """
    known = {semconv.GEN_AI_CONVERSATION_ID: conversation_id}
    made = SpanFactory(
        WorkflowSpan,
        "invoke_workflow",
        semconv.GEN_AI_WORKFLOW_NAME,
        known=known,
        input_from=input_from,
        **options,
    )
    return made.given(function)


@overload
def inference(function: _F, /) -> _F: ...
@overload
def inference(
    model: str | None = None,
    /,
    *,
    provider: str | None = None,
    operation: str = "chat",
    input_from: str | None = None,
    **options: Unpack[Options],
) -> SpanFactory[InferenceSpan]: ...
def inference(
    function: Any = None,
    /,
    *,
    provider: str | None = None,
    operation: str = "chat",
    input_from: str | None = None,
    **options: Unpack[Options],
) -> Any:
    """One call of a model: `chat {model}`.

    A decorated function that returns a provider's reply, or yields the chunks of one, needs nothing more:
    answer, model, tokens and finish reason are read from it.

    Args:
        function: the model that is asked, or the function to decorate.
        provider: who serves the model, in OpenTelemetry's words: `openai`, `anthropic`, `aws.bedrock`, ...
        operation: `chat`, `generate_content` or `text_completion`.
        input_from: which parameter of the decorated function holds the messages; see `agent`.
        options: see `Options`.
    """
    known = {semconv.GEN_AI_PROVIDER_NAME: provider}
    made = SpanFactory(
        InferenceSpan,
        operation,
        semconv.GEN_AI_REQUEST_MODEL,
        known=known,
        input_from=input_from,
        kind=SpanKind.CLIENT,
        **options,
    )
    return made.given(function)


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
    """One call of a tool: `execute_tool {name}`.

    Args:
        function: the tool's name, or the function to decorate, whose name is taken.
        id: the id that the model gave the call, for the context manager.
        description: what the tool is for.
        options: see `Options`.
    """
    known = {
        semconv.GEN_AI_TOOL_TYPE: "function",
        semconv.GEN_AI_TOOL_CALL_ID: id,
        semconv.GEN_AI_TOOL_DESCRIPTION: description,
    }
    made = SpanFactory(ToolSpan, "execute_tool", semconv.GEN_AI_TOOL_NAME, known=known, **options)
    return made.given(function)


@overload
def retrieval(function: _F, /) -> _F: ...
@overload
def retrieval(
    data_source: str | None = None,
    /,
    *,
    input_from: str | None = None,
    **options: Unpack[Options],
) -> SpanFactory[RetrievalSpan]: ...
def retrieval(
    function: Any = None,
    /,
    *,
    input_from: str | None = None,
    **options: Unpack[Options],
) -> Any:
    """One search for documents: `retrieval {data source}`.

    Args:
        function: the id of what is searched, or the function to decorate.
        input_from: which parameter of the decorated function is the query; see `agent`.
        options: see `Options`.
    """
    made = SpanFactory(
        RetrievalSpan,
        "retrieval",
        semconv.GEN_AI_DATA_SOURCE_ID,
        input_from=input_from,
        kind=SpanKind.CLIENT,
        **options,
    )
    return made.given(function)
