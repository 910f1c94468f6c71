"""The commands of `otel-evals`; each is loaded when it is called."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from otel_evals.cli import config as configuration
from otel_evals.cli import judge as judging
from otel_evals.cli import scorers as scoring
from otel_evals.cli.destinations import destination, destinations
from otel_evals.cli.doctor import doctor
from otel_evals.cli.explain import explain
from otel_evals.cli.gateway import gateway
from otel_evals.cli.init import init
from otel_evals.cli.labels import labels
from otel_evals.cli.monitor import monitor as monitor_command
from otel_evals.cli.replay import replay
from otel_evals.cli.report import report
from otel_evals.cli.results import export, results
from otel_evals.cli.runs import runs
from otel_evals.cli.score import score
from otel_evals.cli.store import store
from otel_evals.cli.terminal import log_visibly
from otel_evals.cli.top import top
from otel_evals.errors import OtelEvalsError
from otel_evals.version import __version__

__all__ = ["app"]

app = typer.Typer(help="Scores agent traffic live, where the OpenTelemetry traces are.", no_args_is_help=True)
app.add_typer(store, name="store")
app.command()(runs)
app.command()(explain)
app.command()(score)
app.command()(replay)
app.command()(top)
app.command()(report)
app.command("monitor")(monitor_command)
app.command()(export)
app.command()(doctor)
app.command()(init)
app.add_typer(results, name="results")
app.add_typer(labels, name="labels")
app.add_typer(scoring.app, name="scorers")
app.command()(gateway)
app.add_typer(judging.app, name="judge")
app.add_typer(configuration.app, name="config")
app.add_typer(destinations, name="destinations")
app.add_typer(destination, name="destination")


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
    to: Annotated[
        list[str] | None,
        typer.Option(
            help="Send spans and scores to a backend too, NAME or NAME=URL; see `destinations list`."
        ),
    ] = None,
    phoenix: Annotated[
        str | None, typer.Option(help="The same as --to phoenix=URL, e.g. http://localhost:6006.")
    ] = None,
    monitor: Annotated[
        bool, typer.Option("--monitor", help="Then open the page on two days of made-up history.")
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes a free one.")] = 8765,
    browser: Annotated[bool, typer.Option(help="Whether --monitor opens a browser.")] = True,
) -> None:
    """Score a support agent's live traffic, and compare with what was really wrong."""
    try:
        from otel_evals.cli.demo.main import DemoOptions
        from otel_evals.cli.demo.main import demo as run_demo

        where = [*(to or ()), *([f"phoenix={phoenix}"] if phoenix else ())]
        chosen = DemoOptions(
            runs=runs,
            seed=seed,
            out=out,
            judge=judge,
            api_base=api_base,
            to=tuple(where),
            monitor=monitor,
            port=port,
            browser=browser,
        )
        run_demo(chosen)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"", "otel_evals"}:
            raise
        sys.exit(f"The demo needs {missing}: pip install 'otel-evals[demo]'")
    except OtelEvalsError as error:
        sys.exit(str(error))
