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
    """An exception in a form that can be sent to a process that does not have its class."""

    error_type: str
    message: str
    steps: tuple[StepRecord, ...] = ()
    unavailable: bool = False
    """Whether it was a JudgeUnavailableError, which is worth another attempt."""
    retry_after: float | None = None
    """Seconds that the judge asked to wait."""


def main() -> None:
    """Score the runs that arrive on the pipe until it is closed."""
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
    """The outcome for a packed run; any exception becomes a `Raised`, even SystemExit."""
    attach(mark())  # anew, since the mark of a while ago is believed by nobody
    try:
        run: Run = pickle.loads(frame)
        return _packed(await scorer.score(run))
    except BaseException as error:
        return _packed(raised(error))


def raised(error: BaseException) -> Raised:
    """Convert an exception."""
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
    """A reply as bytes; what is not a valid outcome becomes a failure."""
    if not isinstance(reply, Raised):
        reply = to_outcome(reply)
    return pickle.dumps(reply)
