"""`otel-evals store`: lists, retries and deletes the runs in a store."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from otel_evals._internal.cli.terminal import AsJson, done, echo, exit_on
from otel_evals._internal.durable_queue import admin
from otel_evals._internal.durable_queue.database import open_database

store = typer.Typer(help="List, retry and delete the runs in a store.", no_args_is_help=True)

_Path = Annotated[Path, typer.Argument(help="The store's file.")]
_Traces = Annotated[list[str] | None, typer.Option("--trace", help="Only runs of this trace; repeatable.")]
_State = StrEnum("_State", "WAITING SCORING DEAD_LETTER DONE")
_Droppable = StrEnum("_Droppable", "WAITING DEAD_LETTER DONE")


@store.command("list")
def show(
    path: _Path,
    state: Annotated[_State | None, typer.Option(help="Only runs of this state.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> None:
    """List the runs with their states, and dead letters with their reason."""
    counts: Counter[str] = Counter()
    with _opened(path) as connection:
        for run in admin.list_runs(connection, state):
            counts[run.state] += 1
            if as_json:
                echo(json.dumps(asdict(run)))
            elif run.state != _State.DONE or state == _State.DONE:
                tries = f"{run.attempts} attempts, {run.crashes} crashes, revision {run.revision}"
                echo(f"{run.trace_id}  {run.state:7}  {_time(run.age):>6}  {', '.join(run.rules)}  ({tries})")
                if run.reason:
                    echo(f"    {run.reason}")
    if not as_json:
        echo(", ".join(f"{count} {name}" for name, count in counts.items()) or "no runs")


@store.command()
def retry(path: _Path, trace: _Traces = None, as_json: AsJson = False) -> None:
    """Score dead letters again, in the next process that uses the store."""
    with _opened(path) as connection:
        runs = admin.retry(connection, trace or ())
    done(f"{runs} runs will be scored again", as_json, runs=runs)


@store.command()
def drop(
    path: _Path,
    state: Annotated[_Droppable, typer.Option(help="State of the runs.")] = _Droppable.DEAD_LETTER,
    trace: _Traces = None,
    as_json: AsJson = False,
) -> None:
    """Delete dead letters, waiting runs, or done ones that are kept for late spans."""
    with _opened(path) as connection:
        runs = admin.drop(connection, state, trace or ())
    done(f"{runs} runs deleted", as_json, runs=runs)


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    with exit_on(sqlite3.Error, command="store"), closing(open_database(path, create=False)) as connection:
        yield connection


def _time(seconds: float) -> str:
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= length:
            return f"{seconds / length:.0f}{unit}"
    return f"{seconds:.0f}s"
