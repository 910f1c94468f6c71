"""The commands of `otel-evals`; each is loaded when it is called."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated

import typer

from otel_evals._internal.cli import config as configuration
from otel_evals._internal.cli import judge as judging
from otel_evals._internal.cli import scorers as scoring
from otel_evals._internal.cli.destinations import destination, destinations
from otel_evals._internal.cli.doctor import doctor
from otel_evals._internal.cli.explain import explain
from otel_evals._internal.cli.init import init
from otel_evals._internal.cli.runs import runs
from otel_evals._internal.cli.score import score
from otel_evals._internal.cli.store import store
from otel_evals._internal.cli.terminal import log_visibly
from otel_evals._internal.version import __version__

app = typer.Typer(help="Scores agent traffic live, where the OpenTelemetry traces are.", no_args_is_help=True)
app.add_typer(store, name="store")
app.command()(runs)
app.command()(explain)
app.command()(score)
app.command()(doctor)
app.command()(init)
app.add_typer(scoring.app, name="scorers")
app.add_typer(judging.app, name="judge")
app.add_typer(configuration.app, name="config")
app.add_typer(destinations, name="destinations")
app.add_typer(destination, name="destination")


def add_commands() -> None:
    """Add the commands of other packages, found through the entry-point group `otel_evals_command`."""
    for point in sorted(entry_points(group="otel_evals_command"), key=lambda point: point.name):
        command = point.load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=point.name)
        else:
            app.command(point.name)(command)


add_commands()


def _show_version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Scores agent traffic live, where the OpenTelemetry traces are."""
    log_visibly()
