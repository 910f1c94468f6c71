"""Creates the spans of an agent, tool, model or retriever: as a decorator and as a context manager.

Generators run in a separate context: the span is current in their body, never in the code that iterates over
them, on any thread or task. The span starts with the first step and ends with the last.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from contextvars import Context
from copy import copy
from types import AsyncGeneratorType, CoroutineType, GeneratorType, TracebackType
from typing import Any, Generic, TypeVar

from opentelemetry import context as context_api
from opentelemetry.trace import TracerProvider, get_tracer

from otel_evals import __version__, semconv
from otel_evals.sdk import Inside
from otel_evals_instrumentation._internal.decorators.open_span import OpenSpan, content_wanted, open_spans
from otel_evals_instrumentation._internal.decorators.spans import MessagesSpan, ToolSpan

_F = TypeVar("_F", bound=Callable[..., Any])
_S = TypeVar("_S", bound=OpenSpan)
_SCOPE = "otel_evals_instrumentation"
_NOTHING: Mapping[str, Any] = {}
_TRACER = get_tracer(_SCOPE, __version__)


class SpanFactory(Generic[_S]):
    """Opens a span for each call of a function that it decorates, or for each `with` block.

    Can be reused, and by many threads and tasks at once.
    """

    def __init__(
        self,
        span_type: type[_S],
        operation: str,
        *,
        known: Mapping[str, Any] = _NOTHING,
        input_from: str | None = None,
        attributes: Mapping[str, Any] | None = None,
        capture_content: bool | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        self._span_type = span_type
        self._name = operation
        self._input_from = input_from
        self._capture = capture_content
        given = {semconv.GEN_AI_OPERATION_NAME: operation, **known, **(attributes or {})}
        self._attributes = {key: value for key, value in given.items() if value is not None}
        self._conversation = self._attributes.get(semconv.GEN_AI_CONVERSATION_ID)
        self._tracer = get_tracer(_SCOPE, __version__, tracer_provider) if tracer_provider else _TRACER
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
        # The descriptor must stay outermost, because the class binds through it.
        if isinstance(function, classmethod | staticmethod):
            return type(function)(self._decorate(function.__func__))
        # A copy: one factory may decorate several functions.
        made = self._for(function)
        parameters = _Parameters(function)

        def opened(args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpenSpan:
            span = made.open()
            if span.content:
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
        above = next(open_spans(), None)
        conversation = self._conversation or (above.conversation_id if above else None)
        attributes = self._attributes
        if conversation is not self._conversation and self._has_messages:
            attributes = {**attributes, semconv.GEN_AI_CONVERSATION_ID: conversation}
        started = self._tracer.start_span(self._name, parent, self._span_type._kind, attributes)
        span = self._span_type(started, content_wanted(self._capture))
        span.conversation_id = conversation
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
        span = next((span for span in open_spans() if span.opener is self), self._blocks[-1])
        self._blocks.remove(span)
        span.__exit__(kind, error, trace)


class _Parameters:
    """Names the arguments of calls by the function's parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            parameters = list(inspect.signature(function).parameters.values())
        # Some built-in functions have no signature.
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


# --- functions of every kind in a span ---


Opener = Callable[[tuple[Any, ...], dict[str, Any]], OpenSpan]
"""Opens the span of a call with these arguments."""

_Started = tuple[OpenSpan, Context, Any]


def wrapped(function: Callable[..., Any], opened: Opener) -> Callable[..., Any]:
    """Return a function of the same kind with a span around each call."""
    body = _body(function)
    if inspect.iscoroutinefunction(body):
        return functools.wraps(function)(_coroutine(function, opened))
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        steps = _async_steps if inspect.isasyncgenfunction(body) else _steps

        def start(*args: Any, **kwargs: Any) -> _Started:
            # Called before the span opens: wrong arguments fail here, without an open span.
            generator = function(*args, **kwargs)
            span = opened(args, kwargs)
            return span, span.leave(), generator

        return functools.wraps(function)(steps(start))
    return functools.wraps(function)(_plain(function, opened))


def _body(function: Any) -> Any:
    """Return the function that a call runs: `__call__` of a callable object."""
    callable_object = not inspect.isroutine(function) and not isinstance(function, functools.partial)
    return type(function).__call__ if callable_object else function


def _plain(function: Callable[..., Any], opened: Opener) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with opened(args, kwargs) as span:
            result = function(*args, **kwargs)
            # The call made a coroutine or a generator: its work is still to come.
            if type(result) in _LATER:
                return _hand_over(span, result)
            span.take_output(result)
            return result

    return call


def _coroutine(function: Callable[..., Any], opened: Opener) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        with opened(args, kwargs) as span:
            result = await function(*args, **kwargs)
            span.take_output(result)
            return result

    return call


# --- after the call ---

_LATER = frozenset((CoroutineType, GeneratorType, AsyncGeneratorType))


def _hand_over(span: OpenSpan, later: Any) -> Any:
    """Keep the span open until a returned coroutine or generator has ended."""
    # Else the `with` block of the call would end the span before the work.
    span.kept_open = True
    started = span, span.leave(), later
    if isinstance(later, CoroutineType):
        return _finish(started)
    return (_steps if isinstance(later, GeneratorType) else _async_steps)(lambda: started)()


async def _finish(started: _Started) -> Any:
    span, inside, coroutine = started
    with span:
        result = await Inside(inside, coroutine)
        span.take_output(result)
        return result


def _steps(start: Callable[..., _Started]) -> Callable[..., Generator[Any, Any, Any]]:
    def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        span, inside, generator = start(*args, **kwargs)
        with span:
            step, value = generator.send, None
            while True:
                try:
                    item = inside.run(step, value)
                except StopIteration as done:
                    return done.value
                span.add_chunk(item)
                try:
                    step, value = generator.send, (yield item)
                except GeneratorExit:
                    # The body's `finally` runs where the span is current.
                    inside.run(generator.close)
                    raise
                except BaseException as error:
                    step, value = generator.throw, error

    return generate


def _async_steps(start: Callable[..., _Started]) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def generate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        span, inside, generator = start(*args, **kwargs)
        with span:
            step, value = generator.asend, None
            while True:
                try:
                    item = await Inside(inside, step(value))
                except StopAsyncIteration:
                    return
                span.add_chunk(item)
                try:
                    step, value = generator.asend, (yield item)
                except GeneratorExit:
                    await Inside(inside, generator.aclose())
                    raise
                except BaseException as error:
                    step, value = generator.athrow, error

    return generate
