"""Builds the record of a step while it runs."""

from __future__ import annotations

import re
import time
from typing import Any

from otel_evals._internal.judges.fence import shorten
from otel_evals._internal.judges.judge import JudgeReply, JudgeRequest
from otel_evals._internal.model import ContextSeen, NotScored, Score, StepRecord, Usage
from otel_evals._internal.recursion import need_span
from otel_evals._internal.util.plain import plain_text, plain_value, type_name
from otel_evals.errors import JudgeError

_MODEL = re.compile(r"[\w.:/@+-]{1,200}")
_MAX_PROMPT = 40_000
"""Characters of a recorded prompt; the judge gets all of it."""


class StepRecordBuilder:
    """Collects a step's prompt, cost and result."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.context: ContextSeen | None = None
        self.prompt: str | None = None
        self._model: str | None = None
        self._usage = Usage()
        self._costs: list[float | None] = []
        self._attempts = 0
        self._start_time = time.time_ns()
        self._clock = time.perf_counter()

    def asked(self, request: JudgeRequest, model: str) -> None:
        """Record a question; `model` is the name it is sent to."""
        need_span()
        self.prompt = shorten(f"{request.instructions}\n\n{request.prompt}", _MAX_PROMPT)
        self._model = model

    def answered(self, reply: JudgeReply) -> None:
        if _MODEL.fullmatch(reply.model):  # servers may answer with any text
            self._model = reply.model
        self._spent(reply.usage, reply.cost, reply.attempts)

    def record(self, value: Any) -> StepRecord:
        return self._record(result=_plain(value))

    def failed(self, error: BaseException) -> StepRecord:
        if issubclass(type(error), JudgeError):  # whatever its `__class__` says
            judge: Any = error
            self._spent(judge.usage or Usage(), judge.cost, judge.attempts)
        return self._record(error=told(error))

    def _spent(self, usage: Usage, cost: float | None, attempts: int) -> None:
        self._usage += usage
        self._costs.append(cost)
        self._attempts += attempts

    def _record(self, *, result: Any = None, error: str | None = None) -> StepRecord:
        known = [cost for cost in self._costs if cost is not None]
        return StepRecord(
            name=self.name,
            result=result,
            prompt=self.prompt,
            model=self._model,
            usage=self._usage,
            cost=sum(known) if known and len(known) == len(self._costs) else None,
            attempts=self._attempts or 1,
            start_time=self._start_time,
            duration=time.perf_counter() - self._clock,
            context=self.context,
            error=error,
        )


def told(error: BaseException) -> str:
    """Format an exception in one line: its type and its text."""
    return f"{type_name(error)}: {plain_text(error, 2_000)}".removesuffix(": ")


def _plain(value: Any) -> Any:
    match value:
        case Score():
            return {"value": plain_value(value.value), "label": plain_value(value.label)}
        case NotScored():
            return {"not_scored": plain_value(value.reason)}
    return plain_value(value)
