"""The commands of `otel-evals`; each is imported when it is used."""

from __future__ import annotations

import os
import sys
from importlib.metadata import EntryPoint
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command, get_group

from otel_evals._internal.util.installed import entry_points, install_hint, package_hint
from otel_evals._internal.util.version import __version__

ENTRY_POINT_GROUP = "otel_evals_command"
"""Entry-point group of commands: each is a function, or a Typer application for a group of commands."""
_OWN = {
    **{name: f"{name}:{name}" for name in ("runs", "explain", "score", "doctor")},
    "init": "config:init",
    **{name: f"{name}:app" for name in ("scorers", "judge", "config", "destinations")},
}
_PANELS = {
    "Start": ("init", "demo", "doctor"),
    "Look": ("runs", "explain", "report", "monitor", "mcp", "top"),
    "Run": ("score", "gateway", "judge"),
    "Manage": ("config", "scorers", "destinations", "results", "export"),
}
_ORDER = [name for names in _PANELS.values() for name in names]


class _Commands(TyperGroup):
    """Finds commands by name, in this package and in the entry points of others."""

    def list_commands(self, ctx: object) -> list[str]:
        names = {*_OWN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))}
        return [*(name for name in _ORDER if name in names), *sorted(names.difference(_ORDER))]

    def get_command(self, ctx: object, cmd_name: str) -> Any:
        if cmd_name in _OWN:
            return _loaded(EntryPoint(cmd_name, f"{__package__}.{_OWN[cmd_name]}", ENTRY_POINT_GROUP))
        for point in entry_points(group=ENTRY_POINT_GROUP).select(name=cmd_name):
            return _loaded(point)
        return None


def _loaded(point: EntryPoint) -> Any:
    try:
        found = point.load()
    except (Exception, SystemExit) as error:
        found = _replacement(point, error)
    if isinstance(found, typer.Typer):
        command: Any = get_group(found)
    else:
        # A separate application gives a function the same parsing as a group.
        single = typer.Typer(add_completion=False)
        single.command(point.name)(found)
        command = get_command(single)
    command.name = point.name
    panels = (panel for panel, names in _PANELS.items() if point.name in names)
    command.rich_help_panel = next(panels, "Other packages")
    return command


def _replacement(point: EntryPoint, error: BaseException) -> Any:
    """Build a command that reports why the real one cannot be imported; other commands still work."""
    problem = f"cannot be imported: {type(error).__name__}: {error}; fix: update or uninstall its package"
    if isinstance(error, ModuleNotFoundError) and error.name:
        missing = error.name.partition(".")[0]
        fix = install_hint("cli") if missing in ("typer", "rich") else package_hint(missing)
        problem = f"needs {missing}: {fix}"

    def unavailable() -> None:
        typer.echo(f"otel-evals {point.name}: {problem}", err=True)
        raise typer.Exit(1)

    unavailable.__doc__ = f"Not available: {problem}"
    return unavailable


app = typer.Typer(
    cls=_Commands, help="Score LLM agent traffic live, from OpenTelemetry spans.", no_args_is_help=True
)


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
    """Score LLM agent traffic live, from OpenTelemetry spans."""
    from otel_evals._internal.cli.terminal import log_visibly

    log_visibly()
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)  # for python:module:name; at the end, so that no file hides a package
