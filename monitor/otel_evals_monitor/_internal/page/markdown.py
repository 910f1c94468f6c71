"""Markdown of messages as HTML without anything that loads, runs or hides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup, escape

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
