"""Makes the spans of one agent, tool, model or retriever: as a decorator and as a context manager."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from types import TracebackType
from typing import Any, Generic, TypeVar

from opentelemetry import context as context_api
from opentelemetry._logs import LoggerProvider, get_logger
from opentelemetry.trace import SpanKind, TracerProvider, get_tracer

from otel_evals import __version__, semconv
from otel_evals_instrumentation._internal.decorators.content_capture import content_wanted
from otel_evals_instrumentation._internal.decorators.open_span import OpenSpan, open_in
from otel_evals_instrumentation._internal.decorators.spans import MessagesSpan, ToolSpan
from otel_evals_instrumentation._internal.decorators.wrapping import wrapped

_F = TypeVar("_F", bound=Callable[..., Any])
_S = TypeVar("_S", bound=OpenSpan)
_SCOPE = "otel_evals_instrumentation"
_TRACER = get_tracer(_SCOPE, __version__)
_NAMED_BY_FUNCTION = (semconv.GEN_AI_AGENT_NAME, semconv.GEN_AI_TOOL_NAME, semconv.GEN_AI_WORKFLOW_NAME)
_LOGGER = get_logger(_SCOPE, __version__)


class SpanFactory(Generic[_S]):
    """Opens a span for each call of a function that it decorates, or for each `with` block.

    One may be used again, and by many threads and tasks at once.
    """

    def __init__(
        self,
        span_type: type[_S],
        operation: str,
        name_key: str,
        *,
        known: Mapping[str, Any] | None = None,
        input_from: str | None = None,
        kind: SpanKind = SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        capture_content: bool | None = None,
        tracer_provider: TracerProvider | None = None,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        self._span_type = span_type
        self._name = operation
        self._name_key = name_key
        self._takes_name = name_key in _NAMED_BY_FUNCTION
        self._input_from = input_from
        self._kind = kind
        self._capture = capture_content
        told = {semconv.GEN_AI_OPERATION_NAME: operation, **(known or {}), **(attributes or {})}
        self._attributes = {key: value for key, value in told.items() if value is not None}
        self._conversation = self._attributes.get(semconv.GEN_AI_CONVERSATION_ID)
        self._tracer = get_tracer(_SCOPE, __version__, tracer_provider) if tracer_provider else _TRACER
        self._log = get_logger(_SCOPE, __version__, logger_provider) if logger_provider else _LOGGER
        self._talks = issubclass(span_type, MessagesSpan)
        self._blocks: list[OpenSpan] = []

    def given(self, given: Any) -> Any:
        """What a decorator returns for its first argument: itself for a name, else the function wrapped."""
        if given is None or isinstance(given, str):
            return self._named(given) if given else self
        return self._decorate(given)

    def __call__(self, function: _F) -> _F:
        """The function with a span around each call; its kind and signature stay the same."""
        decorated: _F = self._decorate(function)
        return decorated

    def _named(self, name: str) -> SpanFactory[_S]:
        self._attributes[self._name_key] = name
        self._name = f"{self._name} {name}"
        return self

    def _decorate(self, function: Any) -> Any:
        if isinstance(function, classmethod | staticmethod):
            return type(function)(self._decorate(function.__func__))
        made = self._for(function)
        parameters = _Parameters(function)

        def opened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpenSpan:
            span = made.open()
            if span.content is not None:
                span.take_input(parameters.named(args, kwargs), made._input_from)
            return span

        return wrapped(function, opened)

    def _for(self, function: Any) -> SpanFactory[_S]:
        """The same with the name and the description that a function has, where none were given."""
        made = copy(self)
        made._attributes = dict(self._attributes)
        if self._takes_name and self._name_key not in made._attributes:
            made._named(getattr(function, "__name__", type(function).__name__))
        summary = (inspect.getdoc(function) or "").partition("\n\n")[0]
        if summary and issubclass(self._span_type, ToolSpan):
            made._attributes.setdefault(semconv.GEN_AI_TOOL_DESCRIPTION, summary)
        return made

    def open(self) -> _S:
        """Start a span and make it current; it has to be ended as a context manager is."""
        parent = context_api.get_current()
        above = open_in(parent)
        conversation = self._conversation or (above.conversation_id if above else None)
        attributes = self._attributes
        if conversation is not self._conversation and self._talks:
            attributes = {**attributes, semconv.GEN_AI_CONVERSATION_ID: conversation}
        started = self._tracer.start_span(self._name, parent, self._kind, attributes)
        span = self._span_type(started, content_wanted(self._capture))
        span.conversation_id = conversation
        if span.content is not None and self._talks:
            span.tell_event(self._log, dict(attributes))
        span.enter(parent, above)
        return span

    def __enter__(self) -> _S:
        """Start a span, current until the block is left."""
        span = self.open()
        span.opener = self
        self._blocks.append(span)
        return span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the block's span; an exception is recorded as the SDK does."""
        # Blocks of one instrument may be open in several tasks: this one's is found through the context.
        here = open_in(context_api.get_current())
        mine = (span for span in here.outward() if span.opener is self) if here else iter(())
        span = next(mine, self._blocks[-1])
        self._blocks.remove(span)
        span.__exit__(kind, error, trace)


class _Parameters:
    """The parameters of a function, to name the arguments of a call."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except (TypeError, ValueError):
            parameters = []
        self._names = tuple(
            p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        )
        self._rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "args")
        self._bound = self._names[:1] in (("self",), ("cls",))

    def named(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """What was passed, by name, without the object or class that a method belongs to."""
        named = dict(zip(self._names, args, strict=False))
        if self._bound:
            named.pop(self._names[0], None)
        if len(args) > len(self._names):
            named[self._rest] = args[len(self._names) :]
        return {**named, **kwargs}
