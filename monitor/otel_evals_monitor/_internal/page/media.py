"""Images, sounds and files of a run, as the page shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec import ValidationError, convert

from otel_evals.model import Media

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
    given = content.get("media") if isinstance(content, Mapping) else None
    room, shown = _MOST_CHARACTERS, []
    for each in given if isinstance(given, list) else ():
        if not isinstance(each, Mapping) or each.get("side") != side:
            continue
        try:
            found = convert({name: value for name, value in each.items() if name != "side"}, Media)
            address = _address(found, room)
        except (ValidationError, ValueError):
            continue
        room -= len(address or "")
        shown.append(Shown(address, found.describe()))
    return shown


def _address(found: Media, room: int) -> str | None:
    """Return a PNG, JPEG, GIF or WebP image, recognised by its bytes instead of the recorded type."""
    text = found.base64 or ""
    if len(text) > room or not _BASE64.fullmatch(text) or found.raster_type is None:
        return None
    return f"data:{found.raster_type};base64,{text}"
