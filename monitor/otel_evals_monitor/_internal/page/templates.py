"""Templates, and their filters for numbers, times and texts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, Undefined, select_autoescape

from otel_evals_monitor._internal.report.terminal import number

STYLE = files(__package__).joinpath("style.css").read_text("utf-8")
_LONGEST = 100_000
_NAMES = {
    "scorer_id": "Scorer",
    "scorer_version": "Scorer version",
    "agent_name": "Agent",
    "agent_version": "Agent version",
    "judge_model": "Judge",
}


def render(template: str, **values: Any) -> str:
    """Return an HTML page; all values are escaped, except plots, which are Markup."""
    return _environment.get_template(template).render(values)


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _interval(value: Any) -> str:
    return "" if value is None else f"{number(value.low)} to {number(value.high)}"


def _text(value: Any) -> str:
    """Return a value as text of limited length; empty for None and undefined values."""
    if isinstance(value, Undefined) or value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " [cut]"


def _short(text: Any, width: int) -> str:
    line = " ".join(_text(text)[: width * 8].split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _items(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list; records of other programs may contain anything."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def _heading(name: str) -> str:
    return _NAMES.get(name, name.replace("_", " ").capitalize())


_environment = Environment(
    loader=PackageLoader(__package__ or "", "templates"),
    autoescape=select_autoescape(default=True),
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals |= {"style": None, "lasting": 0}
_filters = (_time, _interval, _text, _short, _items, _sentence, _heading)
_environment.filters |= {"score": number} | {each.__name__[1:]: each for each in _filters}
