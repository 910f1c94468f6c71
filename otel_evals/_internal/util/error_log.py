"""Log lines about what users' code raised: they never raise, and quote nothing where content capture is off.

An exception may be one that no traceback can be made of, and a log handler may raise; neither may keep an
evaluation from ending, or come out of a call of the application's.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from otel_evals._internal.util.plain import type_name

__all__ = ["content_is_shown", "show_content", "tell"]

_traceback_of = BaseException.__dict__["__traceback__"].__get__
"""An exception may have a property of that name."""
_content = True


def show_content(show: bool) -> None:
    """Whether messages and tracebacks of exceptions may be logged from now on: they may quote runs."""
    global _content
    _content = show


def content_is_shown() -> bool:
    """Whether they may."""
    return _content


def tell(
    logger: logging.Logger, message: str, *args: object, error: BaseException, level: int = logging.ERROR
) -> None:
    """Log what went wrong, with the exception as far as it can and may be told.

    Args:
        logger: of the caller's module.
        message: with a place for each of `args`.
        *args: what stands in its places.
        error: whatever was raised.
        level: of the line.
    """
    if _content:
        try:
            told = (type(error), error, _traceback_of(error, type(error)))
            logger.log(level, message, *args, exc_info=told, stacklevel=2)
            return
        except BaseException:  # a traceback that cannot be made, or somebody else's log handler
            pass
    with suppress(BaseException):
        logger.log(level, message + " (%s)", *args, type_name(error), stacklevel=2)  # noqa: G003  # no content in it
