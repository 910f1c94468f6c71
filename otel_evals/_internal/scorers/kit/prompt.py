"""Prompt steps, answered by a judge in a typed form."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from string import Template
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel

from otel_evals._internal.judges.fence import (
    Fence,
    Slot,
    items_of,
    length,
    media_needed,
    media_of_tools,
    not_shown,
    retry_request,
)
from otel_evals._internal.judges.judge import Judge, JudgeRequest, window_of
from otel_evals._internal.judges.resolver import resolve_judge
from otel_evals._internal.model import NotScored
from otel_evals._internal.redaction.redactor import redact
from otel_evals._internal.scorers.kit.context import AnyParams, Params, said_before
from otel_evals._internal.scorers.kit.missing import missing
from otel_evals._internal.scorers.kit.step_record import StepRecordBuilder, asked_once, question_of
from otel_evals._internal.trust.marks import need_span
from otel_evals._internal.util.plain import as_text
from otel_evals.errors import ConfigError, JudgeReplyError

_R = TypeVar("_R")

_FIELDS = {
    "input": "input",
    "output": "output",
    "system": "system_instructions",
    "expected": "ground_truth",
}


# A context variable: the members of a panel ask concurrently, each in its own task.
_VOTE: ContextVar[int] = ContextVar("otel_evals.vote", default=0)


@contextmanager
def vote(number: int) -> Iterator[None]:
    """Number the questions asked inside, for which a judge's cache keeps separate answers."""
    token = _VOTE.set(number)
    try:
        yield
    finally:
        _VOTE.reset(token)


class ScoreReply(BaseModel):
    """A judge's reply that is the score itself."""

    score: float


@dataclass(frozen=True, kw_only=True)
class PromptStep(Generic[_R]):
    """A question to a judge.

    The template's slots are written `$name`; their contents are data, inside a fence. Ready-made slots are
    `$input`, `$output`, `$system`, `$expected` (the run's ground truth), `$history`, `$tool_calls`,
    `$context` and `$score`; a run without the content of a slot is not scored.
    """

    prompt: str
    """The whole question, with slots."""
    schema: type[_R]
    """Form of the answer: a pydantic model, or `str` for plain text."""
    data: Callable[[Params[Any, Any]], Mapping[str, Slot | NotScored]] | None = None
    """Fills slots of your own."""
    check: Callable[[Params[Any, Any], _R], str | None] | None = None
    """Returns the problem of an answer, after which the judge is asked once more; None if it is fine."""
    instructions: str | None = None
    """System message, by default the scorer's."""
    judge: Judge | str | None = None
    """Judge to ask, by default the scorer's."""

    def __post_init__(self) -> None:
        if not Template(self.prompt).is_valid():
            raise ConfigError("prompt", "has a '$' that does not begin a slot: write '$$' for a dollar sign")
        unknown = set(Template(self.prompt).get_identifiers()) - READY_SLOTS.keys()
        if unknown and self.data is None:
            raise ConfigError("prompt", f"nothing fills ${', $'.join(sorted(unknown))}: pass data=...")
        if isinstance(self.judge, str):
            object.__setattr__(self, "judge", resolve_judge(self.judge))

    async def ask(self, params: Params[Any, Any], record: StepRecordBuilder, scorer: Any) -> _R | NotScored:
        """Fill the slots and ask; ask again if the answer does not pass `check`.

        `scorer` is the StepScorer of the step.

        Raises:
            JudgeError: there is no usable answer.
        """
        slots = self._slots(params)
        if isinstance(slots, NotScored):
            return slots
        judge = cast("Judge", self.judge or scorer.judge)
        request = JudgeRequest(
            instructions=scorer.instructions if self.instructions is None else self.instructions,
            prompt=self.prompt,
            schema=self.schema if issubclass(self.schema, BaseModel) else None,
            scorer_id=scorer.id,
            step=params.step,
            sample=_VOTE.get(),
        )

        def fits(answer: _R | NotScored) -> bool:
            # An answer that passed another scorer's check may fail this one's.
            return isinstance(answer, NotScored) or not (self.check and self.check(params, answer))

        # The judge by its identity: a user's judge need not be hashable.
        parts = (self.prompt, request.instructions, id(self.schema), id(judge), request.sample)
        question = question_of(slots, *parts)
        ask = partial(self._ask, request, slots, params, judge, record)
        return cast("_R | NotScored", await asked_once(params.run, question, scorer.id, record, ask, fits))

    async def _ask(
        self,
        request: JudgeRequest,
        slots: Mapping[str, Slot],
        params: AnyParams,
        judge: Judge,
        record: StepRecordBuilder,
    ) -> _R | NotScored:
        """Ask `request`, whose prompt has slots."""
        shown = [text for slot in slots.values() for text in items_of(slot)]
        media = (*media_needed(params.run, slots), *media_of_tools(params.run, shown))
        hidden = not_shown(media, judge)
        if hidden is not None and params.step != "generate_reason":
            return hidden
        need_span()
        fence = Fence(max_chars=window_of(judge).max_prompt_chars, redact=getattr(judge, "redact", redact))
        fenced, whole = fence.wrap_all(slots)
        cut = _cut(params, None if whole else sum(map(length, slots.values())), fence.max_chars)
        if cut is not None and params.step != "generate_reason":  # a reason may rest on less
            if window_of(judge).on_cut == "not_scored":
                return NotScored(reason="evidence_too_long", explanation=cut)
            record.evidence_cut = True
        request = replace(
            request,
            instructions=f"{request.instructions}\n\n{fence.notice}".lstrip(),
            prompt=Template(self.prompt).substitute(fenced),
            mark=fence.mark,
        )
        if media and hidden is None:  # a reason may rest on less
            listed = fence.wrap("media", [each.describe() for each in media])
            note = "The material has images or sounds, which follow in this order:"
            request = replace(request, prompt=f"{request.prompt}\n\n{note}\n{listed}", media=media)
        return await self._answer(request, params, judge, record)

    async def _answer(
        self, request: JudgeRequest, params: AnyParams, judge: Judge, record: StepRecordBuilder
    ) -> _R:
        for again in (True, False):
            record.asked(request, judge.model)
            reply = await judge.ask(request)
            record.answered(reply)
            complaint = self.check(params, reply.value) if self.check else None
            if complaint is None:
                return cast("_R", reply.value)
            said = reply.value
            said = as_text(said.model_dump(mode="json") if isinstance(said, BaseModel) else said)
            if again:
                request = retry_request(request, said, complaint)
        raise JudgeReplyError(f"{complaint}; the judge answered: {said[:300]}")

    def _slots(self, params: AnyParams) -> dict[str, Slot] | NotScored:
        names = Template(self.prompt).get_identifiers()
        given = dict(self.data(params)) if self.data else {}
        slots: dict[str, Slot] = {}
        for name in names:
            # A scorer's own slot wins over the ready-made one of that name.
            value = given[name] if name in given else READY_SLOTS[name](params)
            if isinstance(value, NotScored):
                return value
            slots[name] = value
        return slots


def _cut(params: AnyParams, chars: int | None, limit: int) -> str | None:
    """Return why the judge sees only a part of the evidence; `chars` is the length of cut evidence."""
    if chars is not None:
        return f"the evidence has {chars} characters, and the judge's max_prompt_chars is {limit}"
    if params.context is not None and params.context.truncated:
        return "the resolver of the context left out a part of it"
    return None


# --- ready-made slots ---


def _field(name: str) -> Callable[[AnyParams], Slot | NotScored]:
    def read(params: AnyParams) -> Slot | NotScored:
        absent = missing(params.run, _FIELDS[name])
        return absent or as_text(getattr(params.run, _FIELDS[name]))

    return read


def _history(params: AnyParams) -> Slot | NotScored:
    return said_before(params.run) or NotScored(
        reason="no_history", explanation="nothing was said before this turn"
    )


def _tool_calls(params: AnyParams) -> Slot | NotScored:
    calls = [
        as_text({"tool": c.name, "arguments": c.arguments, "result": c.result, "error": c.error})
        for c in params.run.tool_calls
    ]
    return calls or NotScored(reason="no_tool_calls", explanation="the run called no tool")


def _context(params: AnyParams) -> Slot | NotScored:
    return params.context or NotScored(reason="no_context", explanation="the scorer has no get_context")


def _score(params: AnyParams) -> Slot | NotScored:
    return NotScored(reason="no_score") if params.score is None else params.score


READY_SLOTS: dict[str, Callable[[AnyParams], Slot | NotScored]] = {
    **{name: _field(name) for name in _FIELDS},
    "history": _history,
    "tool_calls": _tool_calls,
    "context": _context,
    "score": _score,
}
