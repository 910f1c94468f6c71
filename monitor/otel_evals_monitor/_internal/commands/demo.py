"""`otel-evals demo`: scores the live traffic of a support agent."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from otel_evals.errors import OtelEvalsError


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
        from otel_evals_monitor._internal.demo.main import DemoOptions
        from otel_evals_monitor._internal.demo.main import demo as run_demo

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
