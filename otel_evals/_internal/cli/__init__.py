"""The `otel-evals` command; requires the extra `cli`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the `otel-evals` command."""
    try:
        from otel_evals._internal.cli.app import app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in {"typer", "rich"}:
            raise
        from otel_evals._internal.util.installed import install_hint

        sys.exit(f"otel-evals needs {missing}: {install_hint('cli')}")
    app()
