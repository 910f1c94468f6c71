"""Typed answers: which rung of the ladder is asked, how an answer is read, and its one repair."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import anyio
from anyio.lowlevel import RunVar
from pydantic import BaseModel, ValidationError

from otel_evals._internal.judges.completions import (
    Completion,
    FormRefusedError,
    may_refuse_form,
    never,
    refuses_request,
)
from otel_evals._internal.judges.fence import retry_request
from otel_evals._internal.judges.judge import JudgeRequest
from otel_evals._internal.judges.ladder import Ladder, StructuredOutput
from otel_evals._internal.redaction.secrets import redact_secrets
from otel_evals._internal.util.calls import of_this_loop
from otel_evals.errors import JudgeError, JudgeReplyError, JudgeUnavailableError

_Model = TypeVar("_Model", bound=BaseModel)
TypedAnswer = tuple[BaseModel, Completion]

_LANGUAGE = re.compile(r"(?:json)?[ \t\r]*\n")
_MOST = 400_000
_MOST_BLOCKS = 4
_WITH_SCHEMA = ("json_object_schema", "json_object", "prompt")
"""Rungs that show the schema in the prompt, since the server may enforce less, or only JSON."""


Ask = Callable[[JudgeRequest, StructuredOutput, Callable[[JudgeError], bool]], Awaitable[Completion]]
"""Makes one call. Raises FormRefusedError for errors of which the given function returns True."""


@dataclass(frozen=True)
class TypedQuestion:
    request: JudgeRequest
    schema: type[BaseModel]
    ask: Ask
    model: str

    async def at(self, rung: StructuredOutput) -> TypedAnswer:
        """Ask in one form, with one repair."""
        return await self._repaired(rung, await self.ask(self._shown(rung), rung, never))

    async def by(self, ladder: Ladder) -> TypedAnswer:
        """Ask in the form that worked before, or find it from the top of the ladder."""
        form = self.schema.__qualname__
        return await _one_search(ladder, form, lambda: self._search(ladder, form))

    async def _search(self, ladder: Ladder, form: str) -> TypedAnswer:
        searching, failed = ladder.searches(form), list[StructuredOutput]()
        try:
            return await self._climb_down(ladder, form, failed)
        except JudgeError:
            if searching and failed:
                ladder.gave_up()
            raise

    async def _climb_down(self, ladder: Ladder, form: str, failed: list[StructuredOutput]) -> TypedAnswer:
        """Try rung after rung.

        A rung fails if the server refuses it, or ignores it and answers in another form. The last rung, one
        that worked before, and one whose answer was cut off are repaired instead.
        """
        known, rungs = ladder.known(form), ladder.rungs(form)
        for rung in rungs[:-1]:
            try:
                refused = refuses_request if rung == known else may_refuse_form
                answer = await self.ask(self._shown(rung), rung, refused)
            except FormRefusedError:
                if rung == known:
                    ladder.refused(form)
                failed.append(rung)
                continue
            value, _ = parse_reply(answer.text, self.schema)
            if value is None and (rung == known or answer.finish_reason == "length"):
                value, answer = await self._repaired(rung, answer)
            if value is not None:
                ladder.worked(form, rung, failed)
                return value, answer
            failed.append(rung)
        found = await self.at(rungs[-1])
        ladder.worked(form, rungs[-1], failed)
        return found

    async def _repaired(self, rung: StructuredOutput, answer: Completion) -> TypedAnswer:
        """Return the parsed answer, or that to the question repeated with the schema and the problem."""
        value, complaint = parse_reply(answer.text, self.schema)
        if value is None:
            again = retry_request(self._with_schema(), answer.text, complaint)
            answer = await self.ask(again, rung, never)
            value, complaint = parse_reply(answer.text, self.schema)
        if value is None:
            said = redact_secrets(answer.text)[:300]
            problem = f"{complaint} ({self.model}, {answer.finish_reason})"
            raise JudgeReplyError(f"{problem}; it answered: {said!r}")
        return value, answer

    def _shown(self, rung: StructuredOutput) -> JudgeRequest:
        return self._with_schema() if rung in _WITH_SCHEMA else self.request

    def _with_schema(self) -> JudgeRequest:
        return replace(self.request, prompt=f"{self.request.prompt}\n\n{describe_schema(self.schema)}")


# --- one search at a time ---


@dataclass
class _Search:
    done: anyio.Event = field(default_factory=anyio.Event)
    error: JudgeUnavailableError | None = None


_searches: RunVar[dict[tuple[Ladder, str], _Search]] = RunVar("otel_evals.judge.searches")


async def _one_search(ladder: Ladder, form: str, work: Callable[[], Awaitable[TypedAnswer]]) -> TypedAnswer:
    """Let one question find the rung while others wait; they fail with it if the server is unavailable."""
    searches = of_this_loop(_searches, dict)
    while ladder.searches(form) and (other := searches.get((ladder, form))) is not None:
        await other.done.wait()
        if (error := other.error) is not None:
            raise JudgeUnavailableError(str(error), retry_after=error.retry_after)
    if not ladder.searches(form):
        return await work()
    searches[ladder, form] = search = _Search()
    try:
        return await work()
    except JudgeUnavailableError as error:
        search.error = error
        raise
    finally:
        del searches[ladder, form]
        search.done.set()


# --- answers as text ---


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


def _candidates(text: str) -> Sequence[str]:
    """Return the texts that may be the object: all of it, a fenced block, or between the outermost braces."""
    blocks = text.split("```", 2 * _MOST_BLOCKS)[1::2]
    found = [text, *(block[m.end() :] for block in blocks if (m := _LANGUAGE.match(block)))]
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        found.append(text[start : end + 1])
    return found


def _problem(error: dict[str, Any]) -> str:
    path = ".".join(str(part) for part in error["loc"])
    return f"{path}: {error['msg']}" if path else str(error["msg"])
