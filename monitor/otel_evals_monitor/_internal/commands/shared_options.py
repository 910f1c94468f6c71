"""Arguments and error handling of the monitor's commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from otel_evals.errors import OtelEvalsError
from otel_evals.sdk.commands import echo
from otel_evals.sdk.util import install_hint

Store = Annotated[str, typer.Argument(help="The results store: a SQLite file, or a postgresql:// URL.")]
Link = Annotated[
    str | None,
    typer.Option(help="Trace links: a destination, jaeger=http://host, or an address with {trace_id}."),
]


@contextmanager
def command_errors(command: str, extra: str) -> Iterator[None]:
    """Print errors and missing packages of an extra on one line, and exit with status 2."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package.startswith("otel_evals"):
            raise
        problem = f"needs {package}: {install_hint(extra)}"
    except (OtelEvalsError, OSError) as error:
        problem = str(error)
    else:
        return
    echo(f"otel-evals {command}: {problem}", err=True)
    raise typer.Exit(2)
