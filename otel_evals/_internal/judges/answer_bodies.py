"""Bounds the server responses that LiteLLM sees: an answer of the usual form, or the start of an error.

LiteLLM searches the text of every error, and of answers that it cannot read, for secrets, with patterns
that take time cubic in the text and hold the interpreter's lock: a few thousand characters would stop the
application for seconds. Errors often quote the request, so anybody may write such text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from otel_evals._internal.redaction.secrets import redact_secrets
from otel_evals._internal.util.json_text import read_json

_MAX_ERROR = 300
_MAX_NAME = 200
_MAX_CALLS = 10
_MAX_PARTS = 100
_ANSWERS = {
    "candidates", "choices", "completion", "content", "generations", "message", "output", "outputs",
    "response", "result", "results", "text",
}  # fmt: skip
"""Fields of answers in providers' own forms."""
_KEPT = ("content-type", "location", "retry-after", "retry-after-ms", "x-request-id")


def bounded_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: headers[name][:_MAX_NAME] for name in _KEPT if name in headers}


def bounded_body(body: bytes, *, success: bool, path: str) -> bytes:
    """Return the body of a response as LiteLLM may see it.

    If `path` asked for a chat completion in OpenAI's form, or for content in Gemini's, only the fields of
    such an answer are kept.
    """
    try:
        value = read_json(body)
    except ValueError:
        return redact_secrets(body[: 4 * _MAX_ERROR].decode("utf-8", "replace"))[:_MAX_ERROR].encode()
    if not success or not isinstance(value, dict):
        return _encoded(_Shortened().value(value))
    read = next((form for end, form in _FORMS.items() if path.endswith(end)), None)
    if read is not None:
        answer = read(value)
        if answer is None:
            answer = _Shortened().value({name: value[name] for name in value.keys() - _ANSWERS})
        return _encoded(answer)
    if value.keys() & _ANSWERS and "error" not in value:
        return body
    return _encoded(_Shortened().value(value))


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")


class _Shortened:
    """Cuts the texts of an error's JSON short."""

    def __init__(self) -> None:
        self._left = _MAX_ERROR

    def value(self, value: Any, depth: int = 4) -> Any:
        if isinstance(value, str):
            text = redact_secrets(value[: 4 * _MAX_ERROR])[: self._left]
            self._left -= len(text)
            return text
        if isinstance(value, dict) and depth:
            return {str(key)[:50]: self.value(value[key], depth - 1) for key in list(value)[:10]}
        if isinstance(value, list) and depth:
            return [self.value(item, depth - 1) for item in value[:3]]
        return value if value is None or isinstance(value, bool) else _number(value)


def _completion(value: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of a chat completion in OpenAI's form; None for another form."""
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(first, dict) or not isinstance(message, dict):
        return None
    kept = {"role": "assistant", "content": _content(message.get("content")), "tool_calls": _calls(message)}
    finish = _name(first.get("finish_reason")) or "stop"
    return {
        "id": _name(value.get("id")) or "completion",
        "object": "chat.completion",
        "created": _number(value.get("created")) or 0,
        "model": _name(value.get("model")) or "",
        "choices": [{"index": 0, "finish_reason": finish, "message": {k: v for k, v in kept.items() if v}}],
        "usage": {
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "total_tokens": 0,
            **_numbers(value.get("usage")),
        },
    }


def _generated(value: dict[str, Any]) -> dict[str, Any] | None:
    """Return the fields of content in Gemini's form; None for another form."""
    candidates = value.get("candidates")
    first = candidates[0] if isinstance(candidates, list) and candidates else None
    if not isinstance(first, dict):
        return None
    content = first.get("content")
    parts = content.get("parts") if isinstance(content, dict) else None
    given = parts[:_MAX_PARTS] if isinstance(parts, list) else ()  # one that was stopped has none
    kept = [part for each in given if isinstance(each, dict) and (part := _part(each))]
    finish = _name(first.get("finishReason")) or "STOP"
    counts = {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}
    return {
        "candidates": [{"index": 0, "finishReason": finish, "content": {"role": "model", "parts": kept}}],
        "modelVersion": _name(value.get("modelVersion")) or "",
        "responseId": _name(value.get("responseId")) or "",
        "usageMetadata": counts | _numbers(value.get("usageMetadata")),
    }


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """Return a text, or the function call that carries a structured answer."""
    text, call = part.get("text"), part.get("functionCall")
    kept: dict[str, Any] = {"text": text} if isinstance(text, str) else {}
    if isinstance(call, dict) and isinstance(call.get("args"), dict):
        kept["functionCall"] = {"name": _name(call.get("name")) or "", "args": call["args"]}
    return kept | {"thought": True} if kept and part.get("thought") is True else kept


_FORMS: Mapping[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "/chat/completions": _completion,
    ":generateContent": _generated,
}
"""Functions that copy the known fields of an answer, by the end of the request's path."""


def _content(content: Any) -> str | None:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        return "".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else None


def _calls(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the function calls, in which some models give structured answers."""
    calls = message.get("tool_calls")
    found = []
    for number, call in enumerate(calls[:_MAX_CALLS] if isinstance(calls, list) else ()):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("arguments"), str):
            named = {"name": _name(function.get("name")) or "", "arguments": function["arguments"]}
            found.append({"id": _name(call.get("id")) or str(number), "type": "function", "function": named})
    return found


def _name(value: Any) -> str | None:
    return value[:_MAX_NAME] if isinstance(value, str) else None


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and abs(value) < 2**63 else None


def _numbers(usage: Any, depth: int = 2) -> dict[str, Any]:
    if not isinstance(usage, dict) or not depth:
        return {}
    kept = {
        str(name)[:50]: _numbers(value, depth - 1) if isinstance(value, dict) else _number(value)
        for name, value in list(usage.items())[:30]
    }
    return {name: value for name, value in kept.items() if value is not None}
