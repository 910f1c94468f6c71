"""The scoring process: one scorer, one run at a time."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass, replace
from typing import Any

from otel_evals.errors import JudgeUnavailableError
from otel_evals.isolation.inside import Inside
from otel_evals.isolation.records import pack_record
from otel_evals.model import NotScored, Run, Score, StepRecord
from otel_evals.scorer import Scorer

__all__ = ["Raised", "main"]


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception on its way to another process, which need not know its class."""

    error_type: str
    message: str
    steps: tuple[StepRecord, ...] = ()
    unavailable: bool = False
    """Whether it was a JudgeUnavailableError, worth another attempt."""
    retry_after: float | None = None


def main() -> None:
    """Score what comes until nothing more comes."""
    inside = Inside()
    with asyncio.Runner() as runner:
        try:
            scorer: Scorer = pickle.loads(inside.receive() or b"")
            scorer.prepare()
        except BaseException as error:
            inside.send(pickle.dumps(raised(error)))
            return
        inside.send(pickle.dumps(None))
        while (frame := inside.receive()) is not None:
            inside.send(runner.run(_answer(scorer, frame)))


async def _answer(scorer: Scorer, frame: bytes) -> bytes:
    """The score of a packed run, or what was raised instead: not even SystemExit ends the process."""
    try:
        run: Run = pickle.loads(frame)
        return _packed(await scorer.score(run))
    except BaseException as error:
        return _packed(raised(error))


def raised(error: BaseException) -> Raised:
    """An exception as a value."""
    cause = error.__cause__ if hasattr(error, "steps") and error.__cause__ is not None else error
    unavailable = isinstance(cause, JudgeUnavailableError)
    return Raised(
        error_type=str(getattr(error, "error_type", type(cause).__name__)),
        message=f"{cause}"[:2000] or type(cause).__name__,
        steps=tuple(getattr(error, "steps", ())),
        unavailable=unavailable,
        retry_after=cause.retry_after if isinstance(cause, JudgeUnavailableError) else None,
    )


def _packed(reply: Any) -> bytes:
    """A reply as bytes; results of steps that another process could not read become plain data."""
    try:
        return pack_record(reply)
    except Exception:
        if not isinstance(reply, Score | NotScored | Raised):
            return pickle.dumps(Raised("TypeError", f"a {type(reply).__name__} is no score"))
        plain = tuple(replace(step, result=_plain(step.result)) for step in reply.steps)
        return pickle.dumps(replace(reply, steps=plain), pickle.HIGHEST_PROTOCOL)


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)
