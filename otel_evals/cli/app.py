"""The commands of `otel-evals`; each is loaded when it is called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from otel_evals.cli import judge as judging
from otel_evals.cli.explain import explain
from otel_evals.cli.gateway import gateway
from otel_evals.cli.runs import runs
from otel_evals.cli.score import score
from otel_evals.cli.store import store
from otel_evals.errors import OtelEvalsError
from otel_evals.version import __version__

__all__ = ["app"]

app = typer.Typer(help="Scores agent traffic live, where the OpenTelemetry traces are.", no_args_is_help=True)
app.add_typer(store, name="store")
app.command()(runs)
app.command()(explain)
app.command()(score)
app.command()(gateway)
app.add_typer(judging.app, name="judge")


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


@app.command()
def demo(
    runs: Annotated[int, typer.Option(min=1, help="How many questions customers ask.")] = 400,
    seed: Annotated[int, typer.Option(help="The same seed gives the same conversations and faults.")] = 7,
    out: Annotated[Path, typer.Option(help="Folder for the records.", file_okay=False)] = Path(
        "otel-evals-demo"
    ),
    judge: Annotated[
        str | None, typer.Option(help="Model for the judged scorers, as LiteLLM names it: openai/gpt-5-mini.")
    ] = None,
    api_base: Annotated[str | None, typer.Option(help="OpenAI-compatible server of the judge.")] = None,
    phoenix: Annotated[
        str | None, typer.Option(help="Send spans and scores to Phoenix too, e.g. http://localhost:6006.")
    ] = None,
) -> None:
    """Score a support agent's live traffic, and compare with what was really wrong."""
    try:
        from otel_evals.cli.demo.main import DemoOptions
        from otel_evals.cli.demo.main import demo as run_demo

        chosen = DemoOptions(runs=runs, seed=seed, out=out, judge=judge, api_base=api_base, phoenix=phoenix)
        run_demo(chosen)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"", "otel_evals"}:
            raise
        sys.exit(f"The demo needs {missing}: pip install 'otel-evals[demo]'")
    except OtelEvalsError as error:
        sys.exit(str(error))
