"""Runs an event loop that nothing but its main coroutine may end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

__all__ = ["run_to_the_end"]

_logger = logging.getLogger(__name__)


def run_to_the_end(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine, whatever the other tasks of the loop raise.

    A task that raises SystemExit or KeyboardInterrupt stops the loop; a scorer may gather such a task.
    Whoever awaits it is given the exception too, once the loop goes on.
    """
    main, level = loop.create_task(coroutine), logging.WARNING
    while not main.done():
        try:
            loop.run_until_complete(main)
        except (SystemExit, KeyboardInterrupt) as error:
            _logger.log(level, "a task raised %s in the scoring thread, which goes on", type(error).__name__)
            level = logging.DEBUG
