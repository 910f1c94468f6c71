"""Ways to ask for a typed answer, and a memory of those that each server takes."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

from pydantic import BaseModel

StructuredOutput = Literal["json_schema", "json_object_schema", "tool", "json_object", "prompt"]
"""A JSON schema; JSON mode with a schema; a tool call; JSON mode; the schema in the prompt only."""
LADDER: tuple[StructuredOutput, ...] = get_args(StructuredOutput)

_PAUSE = 60.0
_ENOUGH = 2
_REFUSALS = 3


def request_fields(rung: StructuredOutput, schema: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a chat completion's request that ask for this form."""
    name = re.sub(r"[^\w-]", "_", schema.__name__)[:64]
    form = _strict(schema.model_json_schema())
    match rung:
        case "json_schema":
            named = {"name": name, "schema": form, "strict": True}
            return {"response_format": {"type": "json_schema", "json_schema": named}}
        case "json_object_schema":
            return {"response_format": {"type": "json_object", "schema": form}}
        case "tool":
            function = {"name": name, "description": "Gives the answer.", "parameters": form}
            choice = {"type": "function", "function": {"name": name}}
            return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
        case "json_object":
            return {"response_format": {"type": "json_object"}}
        case "prompt":
            return {}


def _strict(schema: Any) -> Any:
    """Return a JSON schema in the form of strict outputs: objects with required properties only."""
    if isinstance(schema, list):
        return [_strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _strict(value) for name, value in schema.items() if name != "default"}
    if isinstance(found.get("properties"), dict):
        found |= {"required": list(found["properties"]), "additionalProperties": False}
    return found


class Ladder:
    """Remembers, for a server and model, the rung that works for each form of answer.

    A rung that failed for two forms while a lower one worked, and never worked itself, is skipped for other
    forms. A search without success is not repeated for a minute: a server that is down gets one call for
    each question.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, StructuredOutput] = {}
        self._failed: defaultdict[StructuredOutput, set[str]] = defaultdict(set)
        self._refusals: defaultdict[str, int] = defaultdict(int)
        self._paused_until = float("-inf")

    def known(self, form: str) -> StructuredOutput | None:
        return self._known.get(form)

    def searches(self, form: str) -> bool:
        """Return True if the next question of this form has to find its rung."""
        return form not in self._known and self._clock() >= self._paused_until

    def rungs(self, form: str) -> Sequence[StructuredOutput]:
        """Return the rungs to try, from the top; a known one first, with lower ones in case it is refused."""
        known = self._known.get(form)
        if known is not None:
            return LADDER[LADDER.index(known) :]
        if not self.searches(form):
            return ("prompt",)
        worked = set(self._known.values())
        return [r for r in LADDER if r == "prompt" or r in worked or len(self._failed[r]) < _ENOUGH]

    def worked(self, form: str, rung: StructuredOutput, failed: Sequence[StructuredOutput]) -> None:
        """Remember a success, unless a known rung only failed for once."""
        if self._known.get(form) == rung:
            self._refusals.pop(form, None)
        elif form not in self._known and self._clock() >= self._paused_until:
            self._known[form] = rung
            for each in failed:
                self._failed[each].add(form)

    def refused(self, form: str) -> None:
        """Forget a known rung after several refusals in a row: the server has changed."""
        self._refusals[form] += 1
        if self._refusals[form] >= _REFUSALS:
            self._refusals.pop(form)
            self._known.pop(form, None)

    def gave_up(self) -> None:
        """Search no more for a while."""
        self._paused_until = self._clock() + _PAUSE


@lru_cache(maxsize=256)
def ladder_of(server: str, model: str) -> Ladder:
    """Return the memory that all judges of a server and model share."""
    return Ladder()
