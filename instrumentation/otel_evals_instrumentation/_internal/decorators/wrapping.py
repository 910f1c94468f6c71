"""Wraps functions of every kind in a span.

Generators run in a separate context: the span is current in their body, never in the code that iterates over
them, on any thread or task. The span starts with the first step and ends with the last.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import Any

from otel_evals.sdk import Inside
from otel_evals_instrumentation._internal.decorators.open_span import OpenSpan

Opener = Callable[[tuple[Any, ...], dict[str, Any]], OpenSpan]
"""Opens the span of one call, given its arguments."""

_Started = tuple[OpenSpan, Context, Any]


def wrapped(function: Callable[..., Any], opened: Opener) -> Callable[..., Any]:
    """Return a function of the same kind with a span around each call."""
    body = _body(function)
    if inspect.iscoroutinefunction(body):
        return functools.wraps(function)(_coroutine(function, opened))
    if inspect.isgeneratorfunction(body) or inspect.isasyncgenfunction(body):
        steps = _async_steps if inspect.isasyncgenfunction(body) else _steps

        def start(*args: Any, **kwargs: Any) -> _Started:
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
    span.keep_open()
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
