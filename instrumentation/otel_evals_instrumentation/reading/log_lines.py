"""Content that was logged as lines of text: Spring AI's handlers write a title, then quoted texts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from otel_evals.model import SpanEvent

__all__ = ["content_lines"]

_ASKED = "Prompt Content"
_ANSWERED = "Completion"
_TITLES = ("Chat Model ", "Chat Client ", "Vector Store Query Response")
_ENTRY = re.compile(
    r'(?:^|, )"(system|user|assistant|tool)":"(.*?)"(?=$|, "(?:system|user|assistant|tool)":")', re.DOTALL
)


def content_lines(logs: Iterable[SpanEvent]) -> dict[str, Any]:
    """What such log lines hold, under the names of the attributes that hold the same elsewhere."""
    found: dict[str, Any] = {}
    for log in logs:
        text = log.body
        if not isinstance(text, str) or not text.startswith(_TITLES):
            continue
        title, _, listed = text.partition(":\n")
        if len(title) > 40 or not listed:
            continue
        if title == _TITLES[2]:
            found["db.vector.query.response.documents"] = [{"content": t} for t in _texts(listed)]
        elif title.endswith(_ANSWERED):
            found["gen_ai.output.messages"] = [_message("assistant", t) for t in _texts(listed)]
        elif title == "Chat Client " + _ASKED:
            found["gen_ai.input.messages"] = [_message(role, t) for role, t in _ENTRY.findall(listed[1:-1])]
        elif title.endswith(_ASKED):
            # The texts do not say who spoke. The last one is the user's; others may be anybody's.
            found["gen_ai.input.messages"] = [_message("user", t) for t in _texts(listed)[-1:]]
    return found


def _texts(listed: str) -> list[str]:
    """The texts of a list such as `["one", "two"]`, whose quotes were not escaped; or the only text."""
    if not (listed[:1] == "[" and listed[-1:] == "]"):
        return [listed]
    inside = listed[2:-2] if len(listed) > 3 and listed[1] == listed[-2] == '"' else ""
    return [text for text in inside.split('", "') if text and text != "null"]


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}
