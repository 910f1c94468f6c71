"""Creates the spans of an agent, tool, model or retriever: as a decorator and as a context manager."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from types import TracebackType
from typing import Any, Generic, TypeVar

from opentelemetry import context as context_api
from opentelemetry._logs import LoggerProvider, get_logger
from opentelemetry.trace import TracerProvider, get_tracer

from otel_evals import __version__, semconv
from otel_evals_instrumentation._internal.decorators.open_span import OpenSpan, content_wanted, open_in
from otel_evals_instrumentation._internal.decorators.spans import MessagesSpan, ToolSpan
from otel_evals_instrumentation._internal.decorators.wrapping import wrapped

_F = TypeVar("_F", bound=Callable[..., Any])
_S = TypeVar("_S", bound=OpenSpan)
_SCOPE = "otel_evals_instrumentation"
_TRACER = get_tracer(_SCOPE, __version__)
_LOGGER = get_logger(_SCOPE, __version__)


class SpanFactory(Generic[_S]):
    """Opens a span for each call of a function that it decorates, or for each `with` block.

    Can be reused, and by many threads and tasks at once.
    """

    def __init__(
        self,
        span_type: type[_S],
        operation: str,
        *,
        known: Mapping[str, Any] | None = None,
        input_from: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        capture_content: bool | None = None,
        tracer_provider: TracerProvider | None = None,
        logger_provider: LoggerProvider | None = None,
    ) -> None:
        self._span_type = span_type
        self._name = operation
        self._input_from = input_from
        self._capture = capture_content
        given = {semconv.GEN_AI_OPERATION_NAME: operation, **(known or {}), **(attributes or {})}
        self._attributes = {key: value for key, value in given.items() if value is not None}
        self._conversation = self._attributes.get(semconv.GEN_AI_CONVERSATION_ID)
        self._tracer = get_tracer(_SCOPE, __version__, tracer_provider) if tracer_provider else _TRACER
        self._log = get_logger(_SCOPE, __version__, logger_provider) if logger_provider else _LOGGER
        self._has_messages = issubclass(span_type, MessagesSpan)
        self._blocks: list[OpenSpan] = []

    def given(self, given: Any) -> Any:
        """Return the decorated function, or this factory if the argument is a name."""
        if given is None or isinstance(given, str):
            return self._named(given) if given else self
        return self._decorate(given)

    def __call__(self, function: _F) -> _F:
        """Wrap each call of the function in a span; its kind and signature stay the same."""
        decorated: _F = self._decorate(function)
        return decorated

    def _named(self, name: str) -> SpanFactory[_S]:
        self._attributes[self._span_type._name_key] = name
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
        """Return a copy with the function's name and description, unless given."""
        made = copy(self)
        made._attributes = dict(self._attributes)
        if self._span_type._named_by_function and self._span_type._name_key not in made._attributes:
            made._named(getattr(function, "__name__", type(function).__name__))
        summary = (inspect.getdoc(function) or "").partition("\n\n")[0]
        if summary and issubclass(self._span_type, ToolSpan):
            made._attributes.setdefault(semconv.GEN_AI_TOOL_DESCRIPTION, summary)
        return made

    def open(self) -> _S:
        """Start a span and make it current; the caller leaves it as a context manager."""
        parent = context_api.get_current()
        above = open_in(parent)
        conversation = self._conversation or (above.conversation_id if above else None)
        attributes = self._attributes
        if conversation is not self._conversation and self._has_messages:
            attributes = {**attributes, semconv.GEN_AI_CONVERSATION_ID: conversation}
        started = self._tracer.start_span(self._name, parent, self._span_type._kind, attributes)
        span = self._span_type(started, content_wanted(self._capture))
        span.conversation_id = conversation
        if span.content is not None and self._has_messages:
            span.emit_event(self._log, dict(attributes))
        span.enter(parent, above)
        return span

    def __enter__(self) -> _S:
        span = self.open()
        span.opener = self
        self._blocks.append(span)
        return span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Several tasks may have blocks of this factory open: the context identifies the current one.
        here = open_in(context_api.get_current())
        mine = (span for span in here.outward() if span.opener is self) if here else iter(())
        span = next(mine, self._blocks[-1])
        self._blocks.remove(span)
        span.__exit__(kind, error, trace)


class _Parameters:
    """Names the arguments of calls by the function's parameters."""

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
        """Return the arguments by name, without a method's `self` or `cls`."""
        named = dict(zip(self._names, args, strict=False))
        if self._bound:
            named.pop(self._names[0], None)
        if len(args) > len(self._names):
            named[self._rest] = args[len(self._names) :]
        return {**named, **kwargs}
