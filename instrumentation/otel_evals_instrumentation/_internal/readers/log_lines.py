"""Content in log records.

Spring AI's handlers log a title and quoted texts. AWS' distribution of OpenTelemetry joins the message events
of other libraries in one body with input and output.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from otel_evals.model import SpanEvent
from otel_evals_instrumentation._internal.readers.values import parse

_ASKED = "Prompt Content"
_ANSWERED = "Completion"
_TITLES = ("Chat Model ", "Chat Client ", "Vector Store Query Response")
_ENTRY = re.compile(
    r'(?:^|, )"(system|user|assistant|tool)":"(.*?)"(?=$|, "(?:system|user|assistant|tool)":")', re.DOTALL
)


def content_lines(logs: Iterable[SpanEvent]) -> dict[str, Any]:
    """Return the content of log records, under the attribute names for the same content."""
    found: dict[str, Any] = {}
    for log in logs:
        text = log.body
        if isinstance(text, dict):
            found.update(_conversation(text))
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
            # The texts have no roles; only the last one is known to be the user's.
            found["gen_ai.input.messages"] = [_message("user", t) for t in _texts(listed)[-1:]]
    return found


def _conversation(body: dict[str, Any]) -> dict[str, Any]:
    """Return the messages of a body such as `{"input": {"messages": [...]}, "output": {...}}`."""
    found = {}
    for side in ("input", "output"):
        part = body.get(side)
        listed = part.get("messages") if isinstance(part, dict) else None
        if isinstance(listed, (list, tuple)) and all(isinstance(m, dict) for m in listed):
            found[f"gen_ai.{side}.messages"] = [_unwrapped(m) for m in listed]
    return found


def _unwrapped(message: dict[str, Any]) -> dict[str, Any]:
    """Unwrap a message whose content has the event's attributes."""
    inside = message.get("content")
    if not isinstance(inside, dict) or not inside.keys() & {"content", "message"}:
        return message
    content = inside.get("content", inside.get("message"))
    return {**message, "content": parse(content)}


def _texts(listed: str) -> list[str]:
    """Return the texts of a list such as `["one", "two"]` with unescaped quotes, or the only text."""
    if not (listed[:1] == "[" and listed[-1:] == "]"):
        return [listed]
    inside = listed[2:-2] if len(listed) > 3 and listed[1] == listed[-2] == '"' else ""
    return [text for text in inside.split('", "') if text and text != "null"]


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}
