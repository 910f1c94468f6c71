"""Keeping a step's record while it runs."""

from __future__ import annotations

import time
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel

from otel_evals.errors import JudgeError
from otel_evals.judge.socket import JudgeReply, JudgeRequest
from otel_evals.model import ContextSeen, NotScored, Score, StepRecord, Usage

__all__ = ["Recorder"]


class Recorder:
    """Gathers what one step asked, what that cost and how it ended."""

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
        """A judge is being asked; `model` is the name it is asked under."""
        self.prompt = f"{request.instructions}\n\n{request.prompt}"
        self._model = model

    def answered(self, reply: JudgeReply) -> None:
        """The judge answered."""
        self._model = reply.model
        self._spent(reply.usage, reply.cost, reply.attempts)

    def record(self, value: Any) -> StepRecord:
        """The finished step's record."""
        return self._record(result=_plain(value))

    def failed(self, error: BaseException) -> StepRecord:
        """The failed step's record."""
        if isinstance(error, JudgeError):
            self._spent(error.usage or Usage(), error.cost, error.attempts)
        return self._record(error=f"{type(error).__name__}: {error}".removesuffix(": "))

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


def _plain(value: Any) -> Any:
    """A step's result as what JSON can hold, as far as its type is known here."""
    match value:
        case BaseModel():
            return value.model_dump(mode="json")
        case Score():
            return {"value": value.value, "label": value.label}
        case NotScored():
            return {"not_scored": value.reason}
        case list() | tuple() | set() | frozenset():
            return [_plain(item) for item in value]
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    return value
