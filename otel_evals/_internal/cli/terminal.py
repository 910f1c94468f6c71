"""What commands print: nothing that was recorded may steer the terminal."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import typer

from otel_evals._internal.judges.fence import visible

_UNUSUAL = re.compile(r"[^\x20-\x7e\n]")


def echo(text: object = "", *, err: bool = False) -> None:
    """Print a text, control and invisible characters as escapes."""
    typer.echo(visible(str(text)), err=err)


def json_text(value: Any, **options: Any) -> str:
    """A value as JSON, readable in every language; what cannot be printed is escaped as JSON does it."""
    return _UNUSUAL.sub(_as_json_has_it, json.dumps(value, ensure_ascii=False, **options))


def _as_json_has_it(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def log_visibly() -> None:
    """Have log lines printed likewise, where nobody has set up logging: they tell what scorers raised."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Visible())


class _Visible(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return visible(super().format(record))
