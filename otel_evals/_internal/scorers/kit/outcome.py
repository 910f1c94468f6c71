"""One attempt of a scorer, and its outcome: validated once, here, and bounded in size.

A Score, a NotScored and a ScorerFailure keep their meaning if all their fields have the declared types.
Anything else, and a value that cannot be read, is a failure of the scorer that names the problem.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from otel_evals._internal.model import NotScored, Run, Score, ScorerFailure, StepRecord
from otel_evals._internal.scorers.kit.scorer import Scorer, StepFailure
from otel_evals._internal.util.plain import plain_text, plain_value, type_name
from otel_evals.errors import JudgeUnavailableError

MAX_LABEL = 256
"""Characters of a label, a reason or an error type."""
_MAX_TEXT = 10_000
_MAX_MESSAGE = 2_000
_MAX_PROMPT = 40_000
_MAX_STEPS = 1_000
_KINDS = (Score, NotScored, ScorerFailure)
_LIMITS = {
    "label": MAX_LABEL,
    "reason": MAX_LABEL,
    "error_type": MAX_LABEL,
    "span_id": MAX_LABEL,
    "name": MAX_LABEL,
    "model": MAX_LABEL,
    "explanation": _MAX_TEXT,
    "message": _MAX_MESSAGE,
    "error": _MAX_MESSAGE,
    "prompt": _MAX_PROMPT,
}
"""Characters of texts in outcomes and their steps, by field."""

Result = Score | NotScored | ScorerFailure | BaseException
"""Of an attempt: exceptions are values."""


async def attempted(scorer: Scorer, run: Run, attempts: int) -> Result:
    """Return the result of an attempt, given its number; SystemExit would end the loop."""
    try:
        return to_outcome(await scorer.score(run), attempts=attempts)
    except asyncio.CancelledError as error:
        # After a timeout, the steps so far are kept; otherwise the scorer cancelled itself.
        return ended_early(steps_of_error(error))
    except BaseException as error:
        return error


def attempted_at_once(scorer: Scorer, run: Run, attempts: int) -> Result:
    """Return the result of a scorer that never waits."""
    try:
        return to_outcome(scorer.score_at_once(run), attempts=attempts)
    except BaseException as error:
        return error


def ended_early(steps: tuple[StepRecord, ...] = ()) -> StepFailure:
    """Return the failure of a scorer that was cancelled after these steps."""
    failure = StepFailure("the scorer cancelled itself", steps=steps)
    failure.__cause__ = asyncio.CancelledError("the scorer cancelled itself")
    return failure


def to_outcome(value: object, *, attempts: int = 1) -> Score | NotScored | ScorerFailure:
    """Convert an answer or an exception to an outcome."""
    if type(value) is Score and _is_plain(value):  # most are: the rest costs ten times as much
        return value
    try:
        if isinstance(value, BaseException):
            return failure_of(value, attempts=attempts)
        kind = next((kind for kind in _KINDS if isinstance(value, kind)), None)
        problem = f"a {type_name(value)}"
        if kind is not None:
            # There and back: msgspec checks the types of fields when it converts, not when a struct is made.
            outcome: Any = convert(to_builtins(value, enc_hook=plain_value), kind)
            problem = _problem_of(outcome)
            if not problem:
                bounded: Score | NotScored | ScorerFailure = _bounded(outcome)
                return bounded
    except Exception as error:
        problem = f"a {type_name(value)} that cannot be used ({plain_text(error, 300)})"
    said = f"the scorer returned {problem}, not a Score with a finite value or a NotScored with a reason"
    return ScorerFailure(error_type=TypeError.__name__, message=said, attempts=attempts)


def failure_of(error: BaseException, *, attempts: int = 1) -> ScorerFailure:
    """Convert an exception to a failure; a step's failure is named after its cause."""
    cause = root_cause(error)
    named = getattr(error, "error_type", None)
    return ScorerFailure(
        error_type=plain_text(named, MAX_LABEL) if named and isinstance(named, str) else type_name(cause),
        message=plain_text(cause, _MAX_MESSAGE) or type_name(cause),
        attempts=attempts,
        steps=steps_of_error(error),
    )


def root_cause(error: BaseException) -> BaseException:
    """Return the exception that made a step fail; any exception without steps is its own cause."""
    return error.__cause__ or error if hasattr(error, "steps") else error


def asked_wait(error: BaseException) -> float | None:
    """Return the seconds that an unavailable judge asked to wait, 0 by default; None for other errors."""
    return max(0.0, error.retry_after or 0.0) if isinstance(error, JudgeUnavailableError) else None


def steps_of_error(error: BaseException) -> tuple[StepRecord, ...]:
    """Return the records of the steps that an exception carries, if it is one of ours."""
    try:
        given = getattr(error, "steps", ())
        steps = convert(to_builtins(given, enc_hook=plain_value), tuple[StepRecord, ...])
    except Exception:
        return ()
    return tuple(map(_bounded, steps[:_MAX_STEPS]))


def _is_plain(score: Score) -> bool:
    """Return True if a Score has no steps, and only short values of the declared types."""
    return (
        type(score.value) is float
        and math.isfinite(score.value)
        and score.steps == ()
        and score.agreement is None
        and score.span_id is None
        and _is_plain_text(score.label, MAX_LABEL)
        and _is_plain_text(score.explanation, _MAX_TEXT)
    )


def _is_plain_text(text: object, limit: int) -> bool:
    # ASCII has no halves of surrogate pairs, which have no UTF-8 form.
    return text is None or (type(text) is str and len(text) <= limit and text.isascii())


def _problem_of(outcome: Any) -> str:
    if isinstance(outcome, Score) and not math.isfinite(outcome.value):
        return f"a Score of {outcome.value}"
    if isinstance(outcome, NotScored) and not outcome.reason:
        return "a NotScored without a reason"
    return ""


def _bounded(record: Any) -> Any:
    """Return an outcome or a step with texts of limited length, which can be encoded."""
    changed: dict[str, Any] = {
        name: plain_text(text, limit)
        for name, limit in _LIMITS.items()
        if isinstance(text := getattr(record, name, None), str)
    }
    if isinstance(record, StepRecord):
        changed["result"] = plain_value(record.result)
    if isinstance(record, _KINDS):
        changed["steps"] = tuple(map(_bounded, record.steps[:_MAX_STEPS]))
    if isinstance(record, Score):
        changed["value"] = record.value + 0.0  # no negative zero
    return replace(record, **changed)
