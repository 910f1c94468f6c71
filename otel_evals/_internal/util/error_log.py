"""Log lines about what users' code raised: they never raise, and quote nothing where content capture is off.

Formatting an exception's traceback may fail, and a log handler may raise; neither may keep an
evaluation from ending, or come out of a call of the application's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar

from otel_evals._internal.util.plain import type_name

_logger = logging.getLogger(__name__)
_content = ContextVar("otel_evals_content", default=True)


def show_content(show: bool) -> None:
    """Set whether log lines of the current context may have messages and tracebacks, which may quote runs."""
    _content.set(show)


def content_is_shown() -> bool:
    """Return True if log lines of the current context may quote runs."""
    return _content.get()


def safely(call: Callable[[], object], message: str) -> None:
    """Call users' code; an exception is only logged, with this message."""
    try:
        call()
    except BaseException as error:  # SystemExit would end the engine's thread, or the application
        log_error(_logger, message, error=error, level=logging.WARNING)


def log_error(
    logger: logging.Logger, message: str, *args: object, error: BaseException, level: int = logging.ERROR
) -> None:
    """Log a failure, with as much of the exception as is printable and permitted."""
    if _content.get():
        try:
            logger.log(level, message, *args, exc_info=error, stacklevel=2)
            return
        except BaseException:  # a traceback that cannot be made, or somebody else's log handler
            pass
    with suppress(BaseException):
        logger.log(level, message + " (%s)", *args, type_name(error), stacklevel=2)  # noqa: G003  # no content in it
