"""Parses a judge's text into the requested typed answer."""

from __future__ import annotations

import json
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

_Model = TypeVar("_Model", bound=BaseModel)

_LANGUAGE = re.compile(r"(?:json)?[ \t\r]*\n")
_MOST = 400_000
_MOST_BLOCKS = 4


def describe_schema(schema: type[BaseModel]) -> str:
    form = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must be valid against this JSON schema:\n{form}"


def parse_reply(text: str, schema: type[_Model]) -> tuple[_Model | None, str]:
    """Return the parsed answer, or None and its problem without quoting it."""
    if len(text) > _MOST:
        return None, f"the answer is longer than {_MOST} characters"
    if not text.strip():
        return None, "the answer is empty"
    complaint = "it holds no JSON object"
    for candidate in _candidates(text):
        try:
            return schema.model_validate_json(candidate), ""
        except ValidationError as error:
            complaint = "; ".join(_problem(dict(item)) for item in error.errors(include_url=False)[:5])
    return None, complaint


def _candidates(text: str) -> list[str]:
    """Return the texts that may be the object: all of it, a fenced block, or between the outermost braces."""
    blocks = text.split("```", 2 * _MOST_BLOCKS)[1::2]
    found = [text, *(block[m.end() :] for block in blocks if (m := _LANGUAGE.match(block)))]
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        found.append(text[start : end + 1])
    return found


def _problem(error: dict[str, object]) -> str:
    path = ".".join(str(part) for part in error["loc"])  # type: ignore[attr-defined]  # a tuple by contract
    return f"{path}: {error['msg']}" if path else str(error["msg"])
