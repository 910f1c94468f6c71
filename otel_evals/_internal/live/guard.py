"""A decorator that checks the answers of a function before they leave it."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from opentelemetry import context as context_api

from otel_evals._internal.capture.processors import GUARD
from otel_evals._internal.engine.check import OnError, OnFail
from otel_evals._internal.live import configure
from otel_evals._internal.live.verdicts import Checks, GuardedCall
from otel_evals._internal.model import Verdict
from otel_evals._internal.scorers.kit.scorer import Scorer
from otel_evals._internal.util.calls import is_async

_F = TypeVar("_F", bound=Callable[..., Any])


def guard(
    scorer: Scorer,
    *,
    fallback: Any,
    deadline: float = 1.0,
    threshold: float | None = None,
    on_error: OnError = "allow",
) -> Callable[[_F], _F]:
    """Decorate a function that returns an answer: only allowed answers leave it.

    The function may be async. A generator is checked as a whole: its items leave once it has ended, or the
    fallback leaves instead. Of answers that are no text, the recorded text is judged.

    Args:
        scorer: as for `check`.
        fallback: returned instead of an answer that is not allowed; or a function of the answer and the
            verdict that rewrites it.
        deadline: as for `check`.
        threshold: as for `check`.
        on_error: as for `check`.

    Raises:
        ConfigError: an option is wrong.
    """
    on_fail: OnFail = "rewrite" if callable(fallback) else "block"
    checks = Checks(scorer, deadline=deadline, threshold=threshold, on_fail=on_fail, on_error=on_error)

    def decorate(function: _F) -> _F:
        made: Any = functools.wraps(function)(_guarded(function, checks, fallback))
        guarded: _F = made
        return guarded

    return decorate


def _guarded(function: Callable[..., Any], checks: Checks, fallback: Any) -> Callable[..., Any]:
    # Decorators may hide that it is a generator.
    body = inspect.unwrap(function)
    if inspect.isasyncgenfunction(body):
        return _stream_later(function, checks, fallback)
    if inspect.isgeneratorfunction(body):
        return _stream_now(function, checks, fallback)
    return (_later if is_async(function) else _now)(function, checks, fallback)


def _later(function: Callable[..., Any], checks: Checks, fallback: Any) -> Callable[..., Any]:
    async def answer(*args: Any, **kwargs: Any) -> Any:
        with _Call() as call:
            with call.current():
                said = await function(*args, **kwargs)
            verdict = await checks.verdict(_text(said), call.options)
        return said if verdict.allowed else await _awaited(_instead(fallback, said, verdict))

    return answer


def _now(function: Callable[..., Any], checks: Checks, fallback: Any) -> Callable[..., Any]:
    def answer(*args: Any, **kwargs: Any) -> Any:
        with _Call() as call:
            with call.current():
                said = function(*args, **kwargs)
            verdict = checks.verdict_sync(_text(said), call.options)
        return said if verdict.allowed else _instead(fallback, said, verdict)

    return answer


def _stream_later(function: Callable[..., Any], checks: Checks, fallback: Any) -> Callable[..., Any]:
    async def generate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        with _Call() as call:
            with call.current():
                items = [item async for item in function(*args, **kwargs)]
            verdict = await checks.verdict(_joined(items), call.options)
        if not verdict.allowed:
            items = [await _awaited(_instead(fallback, _joined(items), verdict))]
        for item in items:
            yield item

    return generate


def _stream_now(function: Callable[..., Any], checks: Checks, fallback: Any) -> Callable[..., Any]:
    def generate(*args: Any, **kwargs: Any) -> Generator[Any, None, None]:
        with _Call() as call:
            with call.current():
                items = list(function(*args, **kwargs))
            verdict = checks.verdict_sync(_joined(items), call.options)
        yield from items if verdict.allowed else [_instead(fallback, _joined(items), verdict)]

    return generate


class _Call:
    """One guarded call: traces that begin in it belong to it."""

    def __init__(self) -> None:
        self._began = time.time_ns()
        self._traces: list[int] = []
        self._outer: Any = context_api.get_value(GUARD)
        self._pipeline = configure.current()
        if self._pipeline is not None:
            self._pipeline.spans.capture_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._outer is not None:
            # A guarded call around this one includes its traces.
            self._outer.extend(self._traces)
        if self._pipeline is not None:
            self._pipeline.spans.open_spans.guarded.difference_update(self._traces)

    @property
    def options(self) -> GuardedCall:
        return GuardedCall(self._traces, self._began)

    @contextmanager
    def current(self) -> Iterator[None]:
        token = context_api.attach(context_api.set_value(GUARD, self._traces))
        try:
            yield
        finally:
            context_api.detach(token)


def _text(answer: object) -> str | None:
    return answer if isinstance(answer, str) else None


def _joined(items: Iterable[object]) -> str | None:
    """Return the answer of a stream: its texts; None stands for the recorded one."""
    return "".join(item for item in items if isinstance(item, str)) or None


def _instead(fallback: Any, answer: Any, verdict: Verdict) -> Any:
    return fallback(answer, verdict) if callable(fallback) else fallback


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
