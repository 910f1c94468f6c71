"""A progress bar, on a terminal and if rich is installed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec


@contextmanager
def bar(what: str, total: int | None, *, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Show progress on standard error; yields a function to call with a number of steps, by default 1."""
    if not shown or not sys.stderr.isatty() or find_spec("rich") is None:
        yield lambda *_: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda steps=1: progress.advance(task, steps)
