"""Templates, and their filters for numbers, times, texts and media."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, Undefined, pass_context, select_autoescape
from jinja2.runtime import Context
from markupsafe import Markup, escape
from msgspec import ValidationError, convert

from otel_evals.model import Media
from otel_evals_monitor._internal.report import words
from otel_evals_monitor._internal.report.plot import whisker
from otel_evals_monitor._internal.report.words import Zone
from otel_evals_monitor._internal.store.rows import objects

STYLE, SCRIPT, ICON = (
    files(__package__).joinpath(name).read_text("utf-8") for name in ("style.css", "page.js", "icon.svg")
)
_LONGEST, _ONE_LINE, _MOST_MARKED = 100_000, 160, 100
# Years in which every zone has a time: names of agents may contain any.
_UTC_TIME = re.compile(r"`([^`]+)`|(?:19[7-9]|2\d\d)\d-[01]\d-[0-3]\d [0-2]\d:[0-5]\d UTC")
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


@pass_context
def _time(context: Context, seconds: int) -> Markup:
    """Return a time in the zone of the page, with the zone's name in its title."""
    zone: Zone = context.get("zone") or Zone()
    shown = zone.short(seconds) if context.get("zone") else zone.full(seconds)
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        datetime.fromtimestamp(seconds, UTC).isoformat(), zone.full(seconds), shown
    )


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
    """Return a value as text of limited length, short JSON in one line; empty for None and undefined."""
    if isinstance(value, Undefined) or value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if not isinstance(value, str) and len(text) > _ONE_LINE:
        text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + " [cut]"


def _short(text: Any, width: int) -> str:
    return words.one_line(_text(text), width)


def _marked(text: Any, found: Sequence[str] = ()) -> Markup:
    """Return a message with the texts in `found` highlighted."""
    # The longest first: a regular expression takes the first alternative that matches.
    wanted = sorted({each for each in found if each.strip()}, key=len, reverse=True)[:_MOST_MARKED]
    if not wanted:
        return escape(_text(text))
    parts = re.split("(" + "|".join(map(re.escape, wanted)) + ")", _text(text))
    # Every second part is a text that was looked for.
    marked = (Markup("<mark>{}</mark>").format(each) if i % 2 else each for i, each in enumerate(parts))
    return Markup("").join(marked)


def _heading(name: str) -> str:
    return _NAMES.get(name, name.replace("_", " ").capitalize())


def _whisker(row: Any, rows: Any) -> Markup:
    """Return the interval of a row, on an axis that all rows share."""
    known = [each.estimate for each in rows if each.estimate.interval and not each.unstated]
    low = min(each.interval.low for each in known)
    high = max(each.interval.high for each in known)
    capacity = 0.05 * (high - low) or 0.05
    return Markup(whisker(row.estimate.mean, row.estimate.interval, low - capacity, high + capacity))


_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_MOST_CHARACTERS = 8_000_000
"""Characters of all images on a page."""


class Shown(NamedTuple):
    """An image with its address, or a description only."""

    address: str | None
    """A `data:` address; nothing is loaded from another place."""
    description: str


def media(content: Any, side: str) -> list[Shown]:
    """Return the media of a run's input or output; records from other programs may contain anything."""
    capacity, shown = _MOST_CHARACTERS, []
    for each in objects(content.get("media")):
        if each.get("side") != side:
            continue
        try:
            found = convert({name: value for name, value in each.items() if name != "side"}, Media)
            address = _address(found, capacity)
        except (ValidationError, ValueError):
            continue
        capacity -= len(address or "")
        shown.append(Shown(address, found.describe()))
    return shown


def _address(found: Media, capacity: int) -> str | None:
    """Return a PNG, JPEG, GIF or WebP image, recognised by its bytes instead of the recorded type."""
    text = found.base64 or ""
    if len(text) > capacity or not _BASE64.fullmatch(text) or found.raster_type is None:
        return None
    return f"data:{found.raster_type};base64,{text}"


_environment = Environment(
    loader=PackageLoader(__package__ or "", "templates"),
    autoescape=select_autoescape(default=True),
    trim_blocks=True,
    lstrip_blocks=True,
)
_environment.globals |= {"style": None, "lasting": 0, "zone": None, "whisker": _whisker, "script": None}
_filters = (_time, _local, _ago, _text, _short, _marked, _heading)
_environment.filters |= {
    "score": words.number,
    "interval": words.interval,
    "signed": words.signed,
    "count": words.count,
    "sentence": words.sentence,
    "media": media,
    "items": objects,
    **{each.__name__[1:]: each for each in _filters},
}
