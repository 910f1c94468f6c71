"""A judge that answers every question in its form, without understanding a word."""

from __future__ import annotations

import re
from typing import Any

from otel_evals.judges import JudgeReply, JudgeRequest
from otel_evals.model import Usage


class AutoJudge:
    """One item per list; as many as a repair asks for."""

    model = "auto"

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        if request.schema is None:
            return JudgeReply(value="because", model=self.model, usage=Usage(input_tokens=1))
        wanted = re.search(r"verdicts for (\d+) \w+; give one for each", request.prompt)
        schema = request.schema.model_json_schema()
        answer = _made(schema, schema.get("$defs", {}), int(wanted[1]) if wanted else 1)
        value = request.schema.model_validate(answer)
        return JudgeReply(value=value, model=self.model, usage=Usage(input_tokens=1))


def _made(schema: dict[str, Any], known: dict[str, Any], items: int, number: int = 1) -> Any:
    if "$ref" in schema:
        return _made(known[schema["$ref"].rpartition("/")[2]], known, items, number)
    if "enum" in schema:
        return next(filter(None, schema["enum"]))  # no name comes first where nothing went wrong
    if "anyOf" in schema:
        return _made(schema["anyOf"][0], known, items, number)
    match schema["type"]:
        case "object":
            return {name: _made(part, known, items, number) for name, part in schema["properties"].items()}
        case "array":
            return [_made(schema["items"], known, items, number) for number in range(1, items + 1)]
        case "string":
            return "text"
        case "boolean":
            return True
    return number
