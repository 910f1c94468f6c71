"""Typed answers: the ways to ask for them, those that a server takes, and one repair."""

from __future__ import annotations

import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from pydantic import BaseModel

from otel_evals._internal.judges.fence import retry_request
from otel_evals._internal.judges.judge import JudgeRequest
from otel_evals._internal.judges.refusals import FormRefusedError, may_refuse_form, never, refuses_request
from otel_evals._internal.judges.replies import Completion, no_answer, parse_reply
from otel_evals._internal.redaction.secrets import redact_secrets
from otel_evals.errors import JudgeEmptyError, JudgeError, JudgeReplyError, JudgeUnavailableError

_log = logging.getLogger(__name__)

StructuredOutput = Literal["json_schema", "json_object_schema", "tool", "json_object", "prompt"]
"""A JSON schema; JSON mode with a schema; a tool call; JSON mode; the schema in the prompt only."""
LADDER: tuple[StructuredOutput, ...] = get_args(StructuredOutput)
_WITH_SCHEMA = ("json_object_schema", "json_object", "prompt")
"""Rungs that show the schema in the prompt, since the server may enforce less, or only JSON."""
_FOR_ONCE = re.compile(r"(?s).*failed_generation|500(?!.*(?:response_format|tools|tool_choice))")
"""Status and text of errors that may be due to one question, and not to the form."""
_PAUSE = 60.0
_REFUSALS = 3

TypedAnswer = tuple[BaseModel, Completion]
Ask = Callable[[JudgeRequest, Mapping[str, Any], Callable[[JudgeError], bool]], Awaitable[Completion]]
"""Makes one call with further fields. Raises FormRefusedError for errors for which the function is true."""


def request_fields(rung: StructuredOutput, schema: type[BaseModel]) -> dict[str, Any]:
    """Return the fields of a chat completion's request that ask for this form."""
    # OpenAI takes names of up to 64 letters, digits, underscores and hyphens.
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
    # OpenAI's strict mode refuses defaults, and wants every property to be required.
    found = {name: _strict(value) for name, value in schema.items() if name != "default"}
    if isinstance(found.get("properties"), dict):
        found |= {"required": list(found["properties"]), "additionalProperties": False}
    return found


class Ladder:
    """Remembers, for a server and model, the rung that works for each form of answer, and refused fields.

    Other forms begin at the uppermost rung that has worked. A search without success is not repeated for a
    minute: a server that is down gets one call for each question.
    """

    def __init__(self) -> None:
        self.left_out: frozenset[str] = frozenset()
        """Fields of requests that the server refuses."""
        self.known: dict[str, StructuredOutput] = {}
        self.refusals: defaultdict[str, int] = defaultdict(int)
        """In a row, by form: of the known rung; while none is known, failures that may be no refusals."""
        self._paused_until = float("-inf")

    def leave_out(self, fields: Collection[str], model: str) -> None:
        if new := frozenset(fields) - self.left_out:
            self.left_out |= new
            _log.info("%s does not take %s: left out from now on", model, ", ".join(sorted(new)))

    def searches(self, form: str) -> bool:
        """Return True if the next question of this form has to find its rung."""
        return form not in self.known and time.monotonic() >= self._paused_until

    def rungs(self, form: str) -> Sequence[StructuredOutput]:
        """Return the rungs to try, from the top; a known one first, with lower ones in case it is refused."""
        if form in self.known:
            return LADDER[LADDER.index(self.known[form]) :]
        if not self.searches(form):
            # The last rung asks for nothing that a server could refuse.
            return LADDER[-1:]
        return LADDER[min(map(LADDER.index, self.known.values()), default=0) :]

    def worked(self, form: str, rung: StructuredOutput, doubts: int = 0) -> None:
        """Remember a success, unless a rung above only failed for once."""
        if self.known.get(form) not in (None, rung):
            return
        # From the number that the question saw: questions of the same moment share one server error.
        self.refusals[form] = doubts % _REFUSALS
        if not self.refusals[form] and self.searches(form):
            self.known[form] = rung

    def refused(self, form: str) -> None:
        """Forget a known rung after several refusals in a row: the server has changed."""
        self.refusals[form] += 1
        if self.refusals[form] >= _REFUSALS:
            self.refusals.pop(form)
            self.known.pop(form, None)

    def gave_up(self) -> None:
        """Search no more for a while."""
        self._paused_until = time.monotonic() + _PAUSE


@lru_cache(maxsize=256)
def ladder_of(server: str, model: str) -> Ladder:
    """Return the memory that all judges of a server and model share."""
    return Ladder()


@dataclass(frozen=True)
class TypedQuestion:
    request: JudgeRequest
    schema: type[BaseModel]
    ask: Ask
    model: str

    async def at(self, rung: StructuredOutput) -> TypedAnswer:
        """Ask in one form, with one repair."""
        return await self._repaired(rung, await self._ask(rung, never))

    async def by(self, ladder: Ladder) -> TypedAnswer:
        """Ask in the form that worked before, or find it from the top of the ladder.

        A rung fails if the server refuses it, or ignores it and answers in another form; one that is only
        ignored is tried again. The last rung, and one that worked before, are repaired instead.
        """
        form = self.schema.__qualname__
        # Read together, before the first wait: other questions of this form may change them meanwhile.
        known, searching, rungs = ladder.known.get(form), ladder.searches(form), ladder.rungs(form)
        seen, doubts = ladder.refusals[form], 0
        for rung in rungs[:-1]:
            try:
                # On a rung that has worked before, a server error is an outage and no refusal.
                answer = await self._ask(rung, refuses_request if rung == known else may_refuse_form)
            except FormRefusedError as refusal:
                if rung == known:
                    ladder.refused(form)
                elif _FOR_ONCE.match(f"{refusal.status} {refusal}"):
                    doubts = seen + 1
                continue
            value, _ = self._read(answer)
            if value is None and rung == known:
                value, answer = await self._repaired(rung, answer)
            if value is not None:
                ladder.worked(form, rung, doubts)
                return value, answer
            doubts = seen + 1
        left_out = ladder.left_out
        try:
            found = await self.at(rungs[-1])
        except JudgeError:
            if searching:
                ladder.gave_up()
            raise
        if ladder.left_out == left_out:  # if not, the refusals were of a field, and not of the forms
            ladder.worked(form, rungs[-1], doubts)
        return found

    async def _ask(self, rung: StructuredOutput, refused: Callable[[JudgeError], bool]) -> Completion:
        request = self._with_schema() if rung in _WITH_SCHEMA else self.request
        return await self.ask(request, request_fields(rung, self.schema), refused)

    def _read(self, answer: Completion) -> tuple[BaseModel | None, str]:
        """Parse an answer; a refusal or a cut one raises, since asking again would bring the same."""
        value, complaint = parse_reply(answer.text, self.schema)
        withheld = no_answer(answer, self.model) if value is None else None
        # Not after an empty or a broken answer: another form, or the repair, may bring a full one.
        if withheld is not None and not isinstance(withheld, JudgeEmptyError | JudgeUnavailableError):
            raise withheld
        return value, complaint

    async def _repaired(self, rung: StructuredOutput, answer: Completion) -> TypedAnswer:
        """Return the parsed answer, or that to the question repeated with the schema and the problem."""
        value, complaint = self._read(answer)
        if value is None:
            again = retry_request(self._with_schema(), answer.text, complaint)
            answer = await self.ask(again, request_fields(rung, self.schema), never)
            value, complaint = self._read(answer)
        if value is None:
            said = redact_secrets(answer.text)[:300]
            problem = f"{complaint} ({self.model}, {answer.finish_reason})"
            raise no_answer(answer, self.model) or JudgeReplyError(f"{problem}; it answered: {said!r}")
        return value, answer

    def _with_schema(self) -> JudgeRequest:
        return replace(self.request, prompt=f"{self.request.prompt}\n\n{describe_schema(self.schema)}")


def describe_schema(schema: type[BaseModel]) -> str:
    form = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must be valid against this JSON schema:\n{form}"
