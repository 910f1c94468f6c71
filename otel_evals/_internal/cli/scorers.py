"""`otel-evals scorers`: lists the scorers, and shows one with its options."""

from __future__ import annotations

import inspect
from typing import Any

import typer

from otel_evals._internal.cli.terminal import ScorerName, echo
from otel_evals._internal.config.plugins import SCORERS, find_scorer, scorer_names
from otel_evals._internal.util.installed import entry_points
from otel_evals.errors import ConfigError

app = typer.Typer(help="List the scorers and their options.", no_args_is_help=True)


@app.command("list")
def show_all() -> None:
    """List all registered scorers: name, kind (code or judge), and first line of the description."""
    names = scorer_names()
    width = max(map(len, names))
    for name in names:
        echo(f"{name:{width}}  {_row(name)}")


@app.command()
def show(name: ScorerName) -> None:
    """Show the description of a scorer, its options with their defaults, and a rule with it."""
    try:
        found = find_scorer(name, "scorer")
    except ConfigError as error:
        echo(f"otel-evals scorers show: {error.problem}", err=True)
        raise typer.Exit(2) from None
    options = _options(found)
    echo(f"{name}\n\n{_description(found)}\n\nOptions:")
    for option, default in options.items():
        echo(f"  {option}" + ("  (required)" if default is None else f" = {default}"))
    if not options:
        echo("  none")
    points = {point.name: point.value for point in entry_points(group=SCORERS)}
    module, _, attribute = points.get(name, "").partition(":")
    if attribute:
        echo(f"\nIn code:\n  from {module} import {attribute}")
    given = ", ".join(f"{option}: ..." for option, default in options.items() if default is None)
    echo(f"\nIn YAML:\n  - scorer: {name}" + (f"\n    options: {{{given}}}" if given else ""))


def _row(name: str) -> str:
    try:
        found = find_scorer(name, "scorer")
    except ConfigError as error:
        return f"?      {error.problem}"
    by = "judge" if "model" in _options(found) else "code"
    return f"{by:5}  {_description(found).splitlines()[0]}"


def _description(found: Any) -> str:
    return inspect.getdoc(found) or getattr(found, "description", "") or "not described"


def _options(found: Any) -> dict[str, str | None]:
    """Return the options with their defaults as text; None for required ones."""
    if not inspect.isroutine(found) and not isinstance(found, type):
        return {}
    parameters = inspect.signature(found).parameters.values()
    return {
        p.name: None if p.default is inspect.Parameter.empty else repr(getattr(p.default, "value", p.default))
        for p in parameters
    }
