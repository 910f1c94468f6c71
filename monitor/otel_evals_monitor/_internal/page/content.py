"""Content of a run on the page: Markdown without anything that loads or runs, and media."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape
from msgspec import ValidationError, convert

from otel_evals.model import Media

_LONGEST = 20_000
_MOST_MARKED = 100


def as_html(text: str, marked: Sequence[str] = ()) -> Markup:
    """Return a message as HTML; the texts in `marked` are highlighted.

    HTML in the message is shown as text, images as links. Long messages stay plain.
    """
    wanted = sorted({each for each in marked if each.strip()}, key=len, reverse=True)[:_MOST_MARKED]
    if len(text) > _LONGEST:
        return Markup('<pre class="plain">{}</pre>').format(text)
    return Markup(_parser.render(text, {"marked": wanted}))


def _render_text(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    text, marked = tokens[index].content, env["marked"]
    if not marked:
        return str(escape(text))
    parts = re.split("(" + "|".join(map(re.escape, marked)) + ")", text)
    # Every second part is a text that was looked for.
    return "".join(f"<mark>{escape(each)}</mark>" if i % 2 else escape(each) for i, each in enumerate(parts))


def _render_image(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    token = tokens[index]
    href, name = str(token.attrGet("src") or ""), token.content or "image"
    return f'<a href="{escape(href)}" rel="noopener noreferrer nofollow">{escape(name)}</a>'


def _render_link(renderer: Any, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    return f'<a href="{escape(str(tokens[index].attrGet("href") or ""))}" rel="noopener noreferrer nofollow">'


def _render_cell(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: Any, env: Any) -> str:
    # The parser aligns cells by a style attribute, which the content security policy forbids.
    return f"<{tokens[index].tag}>"


def _made() -> MarkdownIt:
    made = MarkdownIt("commonmark", {"html": False, "breaks": True}).enable("table")
    made.validateLink = _is_web_link  # type: ignore[method-assign]
    for name, rule in (
        ("text", _render_text),
        ("image", _render_image),
        ("link_open", _render_link),
        ("th_open", _render_cell),
        ("td_open", _render_cell),
        ("heading_open", lambda *_: '<p class="heading">'),  # headings of the page are not the message's
        ("heading_close", lambda *_: "</p>"),
    ):
        made.add_render_rule(name, rule)
    return made


def _is_web_link(url: str) -> bool:
    return url.lower().startswith(("http://", "https://", "mailto:"))


_parser = _made()


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
    capacity, shown = _MOST_CHARACTERS, []
    for each in given if isinstance(given, list) else ():
        if not isinstance(each, Mapping) or each.get("side") != side:
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
