"""The parts of the library that a service is built from, such as the gateway and the monitor.

Applications do not need this package. Names in it may change in any minor release.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextvars import Context
from typing import Any

__all__ = ["Inside"]


class Inside:
    """Awaits with every step in the given context."""

    def __init__(self, context: Context, awaitable: Awaitable[Any]) -> None:
        self._context = context
        self._awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._awaitable.__await__()
        step: Callable[[Any], Any] = steps.send
        value: Any = None
        while True:
            try:
                waiting = self._context.run(step, value)
            except StopIteration as done:
                return done.value
            try:
                step, value = steps.send, (yield waiting)
            except BaseException as error:
                step, value = steps.throw, error
