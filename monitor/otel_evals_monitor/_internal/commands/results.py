"""`otel-evals export` and `otel-evals results`: data sets of scored runs, and changes of a results store."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_evals.errors import ConfigError
from otel_evals.sdk.commands import AsJson, done, echo, exit_on, seconds_of
from otel_evals.sdk.util import counted
from otel_evals_monitor._internal.commands.monitor import Store

if TYPE_CHECKING:
    from otel_evals_monitor._internal.store.database import Database

Monitor = Annotated[str, typer.Argument(help="The alarm's monitor, such as 'fall grounded support'.")]
Note = Annotated[str, typer.Option(help="Reason, for the page and the alarm's record.")]

_FILTERED = 20_000
"""Worst runs that are read if other filters choose among them."""

results = typer.Typer(help="Manage stored results and their alarms.", no_args_is_help=True)


def export(
    source: Annotated[list[str], typer.Argument(help="Results, or files of the jsonl destination.")],
    trace: Annotated[list[str] | None, typer.Option(help="Runs of this trace; repeatable.")] = None,
    scorer: Annotated[str | None, typer.Option(help="The worst runs by this scorer.")] = None,
    worst: Annotated[int, typer.Option(min=1, help="Number of worst runs.")] = 20,
    verdict: Annotated[str | None, typer.Option(help="Runs that people labelled `pass` or `fail`.")] = None,
    window: Annotated[str | None, typer.Option(help="Last recorded period only: 24h, 7d.")] = None,
    out: Annotated[Path, typer.Option(help="The data set, one JSON object per line.")] = Path("runs.jsonl"),
    pytest: Annotated[Path | None, typer.Option(help="Write a test next to the data set.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Write all labels, for `judge calibrate`.")] = None,
) -> None:
    """Write recorded runs as a data set for tests, or labels for judges."""
    with exit_on(OSError, command="export", extra="results"):
        from otel_evals_monitor._internal.report.dataset import (
            items_of,
            labelled_examples,
            labelled_traces,
            test_file,
            tested,
            worst_traces,
        )
        from otel_evals_monitor._internal.report.inputs import opened, window_of

        with opened(source) as loaded, loaded.database.reading() as connection:
            if labels is not None:
                _write(labels, list(labelled_examples(connection)), "label")
                return
            options = {"--trace": trace, "--scorer": scorer, "--verdict": verdict}
            given = [name for name, value in options.items() if value]
            if not given:
                raise ConfigError("--trace", "name --trace, --scorer or --verdict")
            sets = [trace] if trace else []
            sets += [labelled_traces(connection, verdict)] if verdict else []
            if scorer:
                inside = window_of(loaded.database, None, None, window)
                # The worst of those that pass the other filters.
                sets.insert(0, worst_traces(connection, scorer, _FILTERED if sets else worst, inside))
            chosen = [each for each in sets[0] if all(each in others for others in sets[1:])]
            items = list(items_of(connection, chosen[:worst] if scorer else chosen))
            if not items:
                raise ConfigError(" ".join(given), "no run with a recorded question")
            # The test looks for its data set in its own folder.
            data = out if pytest is None or out != Path("runs.jsonl") else pytest.parent / out.name
            _write(data, items, "run")
        if pytest is not None:
            if pytest.resolve().parent != data.resolve().parent:
                raise ConfigError("--pytest", f"must be in the data set's folder, {data.parent}")
            pytest.write_text(test_file(items, data.name, tested(items, scorer)), encoding="utf-8")
            echo(f"wrote {pytest}; run it: pytest {pytest}")


@results.command()
def load(
    store: Store,
    files: Annotated[list[str], typer.Argument(help="Files of the jsonl destination.")],
    as_json: AsJson = False,
) -> None:
    """Load records of the jsonl destination into results; existing records are kept."""
    with exit_on(OSError, command="results load", extra="results"):
        from otel_evals_monitor._internal.report.inputs import Loaded, files_of, load_files
        from otel_evals_monitor._internal.store.writer import ResultsStore

        with closing(ResultsStore(store)) as found:
            loaded = Loaded(found.database, store)
            load_files(found, files_of(files), loaded)
        new = loaded.written
        text = f"{counted(new.evaluations, 'evaluation')} of {counted(new.runs, 'run')} written\n"
        text += f"{new.repeated} known, {counted(loaded.lost, 'line')} unreadable"
        counts = {"runs": new.runs, "evaluations": new.evaluations, "known": new.repeated}
        done(text, as_json, **counts, unreadable_lines=loaded.lost)


@results.command()
def forget(
    store: Store,
    trace: Annotated[list[str] | None, typer.Option(help="Everything about this trace; repeatable.")] = None,
    user: Annotated[list[str] | None, typer.Option(help="Everything about this user; repeatable.")] = None,
    as_json: AsJson = False,
) -> None:
    """Delete all data of traces or users, from means too."""
    with _changing("forget", store) as database:
        from otel_evals_monitor._internal.store.retention import forget as delete

        if not trace and not user:
            raise ConfigError("--trace", "name a --trace or a --user")
        runs, evaluations = delete(database, trace_ids=trace or (), user_ids=user or ())
        text = f"{counted(runs, 'run')} and {counted(evaluations, 'evaluation')} deleted"
        done(text, as_json, runs=runs, evaluations=evaluations)


@results.command()
def trim(
    store: Store,
    older_than: Annotated[str, typer.Option(help="Delete runs older than this: 30d, 12w.")],
    as_json: AsJson = False,
) -> None:
    """Delete old runs; means over time still include them."""
    with _changing("trim", store) as database:
        from otel_evals_monitor._internal.store.retention import keep_within

        runs = keep_within(database, seconds_of(older_than, "--older-than"))
        done(f"{counted(runs, 'run')} deleted", as_json, runs=runs)


@results.command()
def acknowledge(store: Store, monitor: Monitor, note: Note = "") -> None:
    """Acknowledge an alarm; falls are then measured against runs after it.

    The alarm returns if it begins again.
    """
    with _changing("acknowledge", store) as database:
        from otel_evals_monitor._internal.alarms.record import acknowledge as keep

        keep(database, monitor, time.time(), note)
        echo(f"{monitor}: acknowledged")


@contextmanager
def _changing(command: str, store: str) -> Iterator[Database]:
    with exit_on(OSError, command=f"results {command}", extra="results"):
        from otel_evals_monitor._internal.store.database import Database

        with closing(Database(store, create=False)) as database:
            yield database


def _write(path: Path, items: list[dict[str, Any]], what: str) -> None:
    lines = (json.dumps(item, ensure_ascii=False) + "\n" for item in items)
    try:
        path.write_text("".join(lines), encoding="utf-8", errors="replace")
    except OSError as error:  # which the open database would report as its own
        raise ConfigError(str(path), f"cannot be written: {error.strerror}") from None
    echo(f"wrote {counted(len(items), what)} to {path}")
