"""From a judge's text to the typed answer that was asked for."""

from __future__ import annotations

import json
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

__all__ = ["describe", "fit"]

_Model = TypeVar("_Model", bound=BaseModel)

_BLOCK = re.compile(r"```(?:json)?\s*\n(.*?)```", re.DOTALL)


def describe(schema: type[BaseModel]) -> str:
    """What to tell a judge that has to write the form by itself."""
    form = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must be valid against this JSON schema:\n{form}"


def fit(text: str, schema: type[_Model]) -> tuple[_Model | None, str]:
    """The answer in its form, or None and what is wrong with it, without quoting it."""
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
    """Where the object may be: the whole text, a fenced block, or between the outermost braces."""
    found = [text, *_BLOCK.findall(text)]
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        found.append(text[start : end + 1])
    return found


def _problem(error: dict[str, object]) -> str:
    path = ".".join(str(part) for part in error["loc"])  # type: ignore[attr-defined]  # a tuple by contract
    return f"{path}: {error['msg']}" if path else str(error["msg"])
