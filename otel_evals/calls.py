"""Calling what users hand in: sync functions in a worker thread, async ones on the loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from anyio import to_thread

__all__ = ["call"]

_Argument = TypeVar("_Argument")


async def call(function: Callable[[_Argument], Any], argument: _Argument, *, inline: bool = False) -> Any:
    """Call a sync or async function; a sync one in a worker thread, unless `inline`.

    When cancelled, a worker thread is left to end by itself and its result is thrown away.
    """
    if inline or _is_async(function):
        result = function(argument)
    else:
        result = await to_thread.run_sync(function, argument, abandon_on_cancel=True)
    return await result if inspect.isawaitable(result) else result


def _is_async(function: Callable[..., Any]) -> bool:
    function = inspect.unwrap(function)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
