"""Output of commands: recorded text cannot control the terminal."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from otel_evals._internal.judges.fence import visible
from otel_evals.errors import OtelEvalsError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FILES_HELP = "OTLP as JSON, JSON lines or protobuf, gzip or not; - is stdin."
Options = Annotated[list[str] | None, typer.Option("--option", help="Scorer option: name=value, in YAML.")]
_UNUSUAL = re.compile(r"[^\x20-\x7e\n]")


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a text, with control and invisible characters escaped."""
    typer.echo(visible(str(text)), err=err)


def report_skipped(path: str, line: int) -> None:
    echo(f"otel-evals: {path}:{line}: not OTLP, skipped", err=True)


@contextmanager
def exit_on(*errors: type[Exception], command: str) -> Iterator[None]:
    """Print an error of these types, or of ours, on standard error and exit with 2."""
    kinds: tuple[type[Exception], ...] = (OtelEvalsError, *errors)
    try:
        yield
    except kinds as error:
        echo(f"otel-evals {command}: {error}", err=True)
        raise typer.Exit(2) from None


def json_text(value: Any, **options: Any) -> str:
    """Return a value as JSON, readable in every language; unprintable characters are escaped."""
    return _UNUSUAL.sub(_escaped, json.dumps(value, ensure_ascii=False, **options))


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def log_visibly() -> None:
    """Escape log lines in the same way if logging is not configured: they may quote exceptions of scorers."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Visible())


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))
