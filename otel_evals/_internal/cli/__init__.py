"""The `otel-evals` command. What it needs beyond the core is the `cli` extra."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the `otel-evals` command."""
    try:
        from otel_evals._internal.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"typer", "rich"}:
            raise
        sys.exit(f"The command line needs {missing}: pip install 'otel-evals[cli]'")
    app()
