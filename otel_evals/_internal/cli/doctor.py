"""`otel-evals doctor`: finds mistakes in a set-up, and reports each with its fix."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from otel_evals._internal.cli.terminal import AsJson, echo, json_text
from otel_evals._internal.live.doctor.examine import REPORTS, Diagnosis, examine_file, problem, read_reports


def doctor(
    command: Annotated[list[str] | None, typer.Argument(help="Program to examine: -- python app.py")] = None,
    config: Annotated[Path | None, typer.Option(help="The YAML file; OTEL_EVALS_CONFIG by default.")] = None,
    ask_judges: Annotated[bool, typer.Option("--ask-judges", help="Ask each judge a question.")] = False,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for each connection and question.")] = 3.0,
    as_json: AsJson = False,
) -> None:
    """Find mistakes in a configuration or a program, with their fixes."""
    named = config or os.environ.get("OTEL_EVALS_CONFIG")
    found = []
    if named:
        found.append(examine_file(named, ask_judges=ask_judges, timeout=timeout))
    if command:
        found += _under(command)
    if not found:
        usage = "give a program, as in `otel-evals doctor -- python app.py`, or --config"
        echo(f"otel-evals doctor: {usage}", err=True)
        raise typer.Exit(2)
    every = Diagnosis.of_program(found)
    echo(json_text(every.as_json(), indent=2) if as_json else str(every))
    raise typer.Exit(0 if every.ok else 1)


def _under(command: list[str]) -> list[Diagnosis]:
    """Run a program, and read the reports that its processes write when they end."""
    with tempfile.TemporaryDirectory(prefix="otel-evals-doctor-") as folder:
        # The `python` of the PATH may be of another environment, without this package.
        program = command[0] if command[0] != "python" else sys.executable
        try:
            with subprocess.Popen([program, *command[1:]], env={**os.environ, REPORTS: folder}) as running:
                while running.returncode is None:
                    try:
                        running.wait()
                    except KeyboardInterrupt:  # the program receives it too, and ends
                        continue
        except OSError as error:
            text = f"{command[0]} cannot be run: {error.strerror or error}"
            return [_single("program", text, "after --, give the command as you run it")]
        reports = read_reports(Path(folder))
    if reports:
        return list(reports.values())
    if running.returncode < 0:
        text = f"signal {-running.returncode} ended the program before it could report"
        return [_single("program", text, "end it with Ctrl-C, let it exit, or set handle_sigterm=True")]
    if running.returncode:
        text = f"the program failed before otel-evals was configured, and exited with {running.returncode}"
        return [_single("program", text, "correct the error in its output above")]
    text = "otel-evals was not configured in the program"
    fix = "call otel_evals.configure(rules=[answered()]), or run it with opentelemetry-instrument"
    return [_single("configure", text, fix)]


def _single(check: str, text: str, fix: str) -> Diagnosis:
    return Diagnosis(findings=(problem(check, text, fix),))
