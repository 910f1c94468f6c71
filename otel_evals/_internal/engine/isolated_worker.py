"""The scoring process: runs one scorer on one run at a time."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import dataclass

from opentelemetry.context import attach

from otel_evals._internal.model import Run, StepRecord
from otel_evals._internal.processes.parent import Parent
from otel_evals._internal.recursion import mark
from otel_evals._internal.redaction.redactor import use_redaction
from otel_evals._internal.scoring.outcome import asked_wait, failure_of, root_cause, to_outcome
from otel_evals._internal.scoring.scorer import Scorer
from otel_evals._internal.util.error_log import show_content


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception, for a process that cannot import its class."""

    error_type: str
    message: str
    steps: tuple[StepRecord, ...] = ()
    unavailable: bool = False
    """True for a JudgeUnavailableError, which is retried."""
    retry_after: float | None = None
    """Seconds to wait, as requested by the judge."""


def main() -> None:
    parent = Parent()
    try:
        scorer: Scorer
        scorer, redaction, content = pickle.loads(parent.receive() or b"")
        use_redaction(redaction)
        show_content(content)
        scorer.prepare()
    except BaseException as error:
        parent.send(pickle.dumps(raised(error)))
        return
    with asyncio.Runner() as runner:
        parent.send(pickle.dumps(None))
        while (frame := parent.receive()) is not None:
            parent.send(runner.run(_answer(scorer, frame)))


async def _answer(scorer: Scorer, frame: bytes) -> bytes:
    """Score a packed run; any exception becomes a `Raised`, even SystemExit."""
    attach(mark())  # for each run, since old marks expire
    try:
        run: Run = pickle.loads(frame)
        return _packed(await scorer.score(run))
    except BaseException as error:
        return _packed(raised(error))


def raised(error: BaseException) -> Raised:
    failure, cause = failure_of(error), root_cause(error)
    asked = asked_wait(cause)
    return Raised(
        error_type=failure.error_type,
        message=failure.message,
        steps=failure.steps,
        unavailable=asked is not None,
        retry_after=asked or None,
    )


def _packed(reply: object) -> bytes:
    """Pack a reply; an invalid outcome becomes a failure."""
    if not isinstance(reply, Raised):
        reply = to_outcome(reply)
    return pickle.dumps(reply)
