"""Templates, and their filters for numbers, times and texts."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, Undefined, pass_context, select_autoescape
from jinja2.runtime import Context
from markupsafe import Markup, escape

from otel_evals_monitor._internal.page.content import as_html, media
from otel_evals_monitor._internal.report import words
from otel_evals_monitor._internal.report.plot import whisker
from otel_evals_monitor._internal.report.words import Zone

STYLE, SCRIPT, ICON = (
    files(__package__).joinpath(name).read_text("utf-8") for name in ("style.css", "page.js", "icon.svg")
)
_LONGEST = 100_000
_UTC_TIME = re.compile(r"`([^`]+)`|\d{4}-[01]\d-[0-3]\d [0-2]\d:[0-5]\d UTC")
_NAMES = {
    "scorer_id": "Scorer",
    "scorer_version": "Scorer version",
    "agent_name": "Agent",
    "agent_version": "Agent version",
    "judge_model": "Judge",
}


def render(template: str, **values: Any) -> str:
    """Return an HTML page; all values are escaped, except plots and Markdown, which are Markup."""
    return _environment.get_template(template).render(values)


@pass_context
def _time(context: Context, seconds: int) -> Markup:
    """Return a time in the zone of the page, with the zone's name in its title."""
    zone: Zone = context.get("zone") or Zone()
    form = '<time datetime="{}" title="{}">{}</time>'
    shown = zone.short(seconds) if context.get("zone") else zone.full(seconds)
    return Markup(form).format(datetime.fromtimestamp(seconds, UTC).isoformat(), zone.full(seconds), shown)


@pass_context
def _local(context: Context, text: str) -> Markup:
    """Return a text of an alarm with its times in the zone of the page, and its commands as code."""
    parts, end = [], 0
    for match in _UTC_TIME.finditer(text):
        shown = Markup("<code>{}</code>").format(match[1]) if match[1] else _time(context, _utc(match[0]))
        parts += [escape(text[end : match.start()]), shown]
        end = match.end()
    return Markup("").join([*parts, escape(text[end:])])


def _utc(text: str) -> int:
    """Return a time of an alarm's text in seconds since the Unix epoch."""
    try:
        return int(datetime.strptime(text, "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC).timestamp())
    except ValueError:  # a name may look like a time that does not exist
        return 0


def _ago(seconds: int) -> str:
    past = time.time() - seconds
    return "just now" if past < 60 else f"{words.length_of(past)} ago"


def _text(value: Any) -> str:
    """Return a value as text of limited length; empty for None and undefined values."""
    if isinstance(value, Undefined) or value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " [cut]"


def _brief(value: Any) -> str:
    """Return a value as JSON, in one line if it is short."""
    text = (
        _text(value)
        if isinstance(value, str | Undefined)
        else json.dumps(value, ensure_ascii=False, default=str)
    )
    return text if len(text) <= 160 else _text(value)


def _short(text: Any, width: int) -> str:
    return words.one_line(_text(text), width)


def _markdown(text: Any, marked: Any = ()) -> Markup:
    return as_html(_text(text), tuple(marked))


def _items(value: Any) -> list[Mapping[str, Any]]:
    """Return the objects of a list; records of other programs may contain anything."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def _heading(name: str) -> str:
    return _NAMES.get(name, name.replace("_", " ").capitalize())


def _whisker(row: Any, rows: Any) -> Markup:
    """Return the interval of a row, on an axis that all rows share."""
    known = [each.estimate for each in rows if each.estimate.interval and not each.unstated]
    low = min(each.interval.low for each in known)
    high = max(each.interval.high for each in known)
    capacity = 0.05 * (high - low) or 0.05
    return Markup(whisker(row.estimate.mean, row.estimate.interval, low - capacity, high + capacity))


_environment = Environment(
    loader=PackageLoader(__package__ or "", "templates"),
    autoescape=select_autoescape(default=True),
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals |= {"style": None, "lasting": 0, "zone": None, "whisker": _whisker, "script": None}
_filters = (_time, _local, _ago, _text, _brief, _short, _markdown, _items, _heading)
_environment.filters |= {
    "score": words.number,
    "interval": words.interval,
    "signed": words.signed,
    "count": words.count,
    "sentence": words.sentence,
    "media": media,
    **{each.__name__[1:]: each for each in _filters},
}
