"""`otel-evals demo`: scores the live traffic of a support agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from otel_evals.sdk.commands import exit_on


def demo(
    runs: Annotated[int, typer.Option(min=1, help="Number of questions by customers.")] = 400,
    seed: Annotated[int, typer.Option(help="The same seed gives the same conversations and faults.")] = 7,
    out: Annotated[Path, typer.Option(help="Folder of the records.", file_okay=False)] = Path(
        "otel-evals-demo"
    ),
    to: Annotated[
        list[str] | None,
        typer.Option(
            help="Backend that receives spans and scores: NAME or NAME=URL; see `destinations list`."
        ),
    ] = None,
    guard: Annotated[
        bool,
        typer.Option("--guard", help="Send customers a fallback instead of answers with unsupported facts."),
    ] = False,
    monitor: Annotated[
        bool, typer.Option("--monitor", help="Open the page afterwards, with two days of made-up history.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the page; 0 selects a free one.")
    ] = 8765,
    browser: Annotated[bool, typer.Option(help="Open a browser with --monitor.")] = True,
) -> None:
    """Score the live traffic of a support agent with planted faults."""
    with exit_on(OSError, command="demo", extra="demo"):
        from otel_evals_monitor._internal.demo.main import demo as run_demo
        from otel_evals_monitor._internal.demo.main import show_history

        scores = run_demo(runs, seed, out, to or (), guard=guard)
        show_history(out, scores, seed, serve_page=monitor, port=port, browser=browser)
