"""The commands `otel-evals gateway`, `replay` and `top`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from otel_evals.errors import OtelEvalsError
from otel_evals.sdk.commands import echo
from otel_evals.sdk.util import install_hint


@contextmanager
def errors_exit(command: str) -> Iterator[None]:
    """Print errors and missing extras of a command, and exit with 2."""
    try:
        yield
    except OtelEvalsError as error:
        echo(f"otel-evals {command}: {error}", err=True)
        raise typer.Exit(2) from None
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in {"", "otel_evals", "otel_evals_gateway"}:
            raise
        echo(f"otel-evals {command}: {missing} is missing: {install_hint('gateway')}", err=True)
        raise typer.Exit(2) from None
