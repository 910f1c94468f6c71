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
from otel_evals._internal.util.installed import install_hint
from otel_evals._internal.util.plain import write_json
from otel_evals.errors import OtelEvalsError

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
FILES_HELP = "OTLP as JSON, JSON lines or protobuf, gzip or not; - is stdin."


ScorerName = Annotated[
    str,
    typer.Argument(help="A scorer's name, or python:package.module:name."),
]
ScorerNames = Annotated[
    list[str] | None,
    typer.Option("--scorer", help="Name of a scorer; repeatable."),
]
Options = Annotated[list[str] | None, typer.Option("--option", help="Scorer option: name=value, in YAML.")]
_UNUSUAL = re.compile(r"[^\x20-\x7e\n]")


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a text, with control and invisible characters escaped."""
    typer.echo(visible(str(text)), err=err)


def report_skipped(path: str, line: int) -> None:
    echo(f"otel-evals: {path}:{line}: not OTLP, skipped", err=True)


@contextmanager
def exit_on(*errors: type[Exception], command: str, extra: str = "") -> Iterator[None]:
    """Print our errors, errors of these types and missing packages of an extra; exit with 2."""
    kinds: tuple[type[Exception], ...] = (OtelEvalsError, *errors)
    try:
        yield
        return
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not extra or not package or package.startswith("otel_evals"):
            raise
        problem = f"needs {package}: {install_hint(extra)}"
    except kinds as error:
        problem = str(error)
    echo(f"otel-evals {command}: {problem}", err=True)
    raise typer.Exit(2)


def done(text: str, as_json: bool, **values: Any) -> None:
    """Report a finished change: as text, or its values as JSON."""
    echo(json_text(values) if as_json else text)


def json_text(value: Any, **options: Any) -> str:
    """Return a value as JSON, readable in every language; unprintable characters are escaped."""
    return _UNUSUAL.sub(_escaped, write_json(value, **options))


def _escaped(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def log_visibly() -> None:
    """Escape log lines in the same way if logging is not configured: they may quote exceptions of scorers."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Visible())


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))
