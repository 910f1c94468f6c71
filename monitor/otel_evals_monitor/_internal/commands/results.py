"""`otel-evals export` and `otel-evals results`: data sets from scored runs, and what is kept of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from otel_evals.errors import ConfigError, OtelEvalsError
from otel_evals.sdk.commands import echo
from otel_evals.sdk.config import SCORERS

if TYPE_CHECKING:
    from otel_evals_monitor._internal.store.database import Database

results = typer.Typer(help="Fill, trim and clear a results store.", no_args_is_help=True)
_Store = Annotated[str, typer.Argument(help="The results store: a SQLite file, or a postgresql:// URL.")]


def export(
    source: Annotated[list[str], typer.Argument(help="A results store, or files of the jsonl destination.")],
    trace: Annotated[list[str] | None, typer.Option(help="The runs of this trace; repeatable.")] = None,
    scorer: Annotated[str | None, typer.Option(help="The worst runs by this scorer.")] = None,
    worst: Annotated[int, typer.Option(min=1, help="How many of the worst.")] = 20,
    window: Annotated[str | None, typer.Option(help="Of the last so long on record: 24h, 7d.")] = None,
    out: Annotated[Path, typer.Option(help="The data set, one JSON object per line.")] = Path("runs.jsonl"),
    pytest: Annotated[
        Path | None, typer.Option(help="Write a test of these runs, beside the data set.")
    ] = None,
    at_least: Annotated[float, typer.Option(help="Score that the test asks for.")] = 1.0,
    labels: Annotated[Path | None, typer.Option(help="Write all labels, for `judge calibrate`.")] = None,
) -> None:
    """Make a data set of recorded runs, for run_evals and pytest; or of labels, for judges."""
    with store_errors("export"):
        from otel_evals_monitor._internal.report.dataset import items_of, labelled_examples, test_file
        from otel_evals_monitor._internal.report.opener import opened

        with opened(source) as loaded, loaded.database.reading() as connection:
            if labels is not None:
                _write(labels, list(labelled_examples(connection)), "labels")
                return
            chosen = [*(trace or ()), *_worst(loaded.database, scorer, worst, window)]
            items = list(items_of(connection, chosen))
            if not items:
                raise ConfigError(
                    "--trace", "no run with a question on record was chosen; name --trace or --scorer"
                )
            beside = out if pytest is None or out != Path("runs.jsonl") else pytest.parent / out.name
            _write(beside, items, "runs")
        if pytest is not None:
            if pytest.resolve().parent != beside.resolve().parent:
                raise ConfigError("--pytest", f"must stand beside the data set, in {beside.parent}")
            limits = _limits(items, scorer, at_least)
            pytest.write_text(test_file(items, beside.name, limits), encoding="utf-8")
            echo(f"wrote {pytest}; run it: pytest {pytest}")


@results.command()
def load(
    store: _Store, files: Annotated[list[str], typer.Argument(help="Files of the jsonl destination.")]
) -> None:
    """Write records of the jsonl destination into a store; what is there already stays as it is."""
    with store_errors("results load"):
        from otel_evals_monitor._internal.report.opener import Loaded, files_of, load_files
        from otel_evals_monitor._internal.store.writer import ResultsStore

        found = ResultsStore(store)
        try:
            loaded = Loaded(found.database, store)
            load_files(found, files_of(files), loaded)
        finally:
            found.close()
        done, lost = loaded.written, sum(loaded.broken.values()) + sum(loaded.written.unreadable.values())
        echo(f"{done.evaluations} evaluations of {done.runs} runs written")
        echo(f"{done.repeated} were known, {lost} lines are unreadable")


@results.command()
def forget(
    store: _Store,
    trace: Annotated[list[str] | None, typer.Option(help="Everything about this trace; repeatable.")] = None,
    user: Annotated[list[str] | None, typer.Option(help="Everything about this user; repeatable.")] = None,
) -> None:
    """Delete everything about traces or users, from means too."""
    with store_errors("results forget"):
        from otel_evals_monitor._internal.store.retention import forget as delete

        if not trace and not user:
            raise ConfigError("--trace", "name a --trace or a --user")
        with _opened(store) as database:
            runs, evaluations = delete(database, trace_ids=trace or (), user_ids=user or ())
        echo(f"{runs} runs and {evaluations} evaluations deleted")


@results.command()
def trim(
    store: _Store,
    older_than: Annotated[str, typer.Option(help="Delete runs older than this: 30d, 12w.")],
) -> None:
    """Delete old runs; their share of means over time stays."""
    with store_errors("results trim"):
        from otel_evals.sdk.commands import seconds_of
        from otel_evals_monitor._internal.store.retention import keep_within

        with _opened(store) as database:
            age = seconds_of(older_than, "--older-than")
            echo(f"{keep_within(database, age, None, seldom=0.0)} runs deleted")


@contextmanager
def _opened(store: str) -> Iterator[Database]:
    from otel_evals_monitor._internal.store.database import Database

    database = Database(store, create=False)
    try:
        yield database
    finally:
        database.close()


@contextmanager
def store_errors(command: str) -> Iterator[None]:
    """Tell on one line what went wrong with a results store, or with what was asked of it; exit with 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("sqlalchemy", "psycopg"):
            raise
        problem = f"needs {error.name}: pip install 'otel-evals[results]'"
        echo(f"otel-evals {command}: {problem}", err=True)
        raise typer.Exit(2) from None
    except (OtelEvalsError, OSError) as error:
        echo(f"otel-evals {command}: {error}", err=True)
        raise typer.Exit(2) from None


def _worst(database: Database, scorer: str | None, most: int, window: str | None) -> list[str]:
    """The traces of the worst runs by a scorer."""
    if scorer is None:
        return []
    from otel_evals_monitor._internal.report.runs import worst_runs
    from otel_evals_monitor._internal.report.windows import window_of
    from otel_evals_monitor._internal.store.queries import stored_slices

    chosen = window_of(database, None, None, window)
    with database.reading() as connection:
        slices = stored_slices(connection, scorer_id=scorer)
        if not slices:
            raise ConfigError("--scorer", f"{scorer!r} is not on record")
        highest = any(each["direction"] == "lower_is_better" for each in slices.values())
        return [run.trace_id for run in worst_runs(connection, slices, chosen, most, highest=highest)]


def _limits(items: list[dict[str, Any]], scorer: str | None, at_least: float) -> dict[str, float]:
    """The scorers to test with: the one asked for, or those that found something; only those with a name."""
    from importlib.metadata import entry_points

    scores = [(name, s["value"]) for item in items for name, s in item["metadata"]["scores"].items()]
    low = {name for name, value in scores if value < at_least}
    named = {point.name for point in entry_points(group=SCORERS)}
    return {name: at_least for name in ({scorer} if scorer else low) if name in named}


def _write(path: Path, items: list[dict[str, Any]], what: str) -> None:
    lines = (json.dumps(item, ensure_ascii=False) + "\n" for item in items)
    path.write_text("".join(lines), encoding="utf-8", errors="replace")
    echo(f"wrote {len(items)} {what} to {path}")
