"""The parts of an outcome: failures of exceptions, and texts of bounded size.

A Score, a NotScored and a ScorerFailure keep their meaning if all their fields have the declared types.
Anything else, and a value that cannot be read, is a failure of the scorer that names the problem.
"""

from __future__ import annotations

import math
from typing import Any

from msgspec import convert, to_builtins
from msgspec.structs import replace

from otel_evals._internal.model import NotScored, Score, ScorerFailure, StepRecord
from otel_evals._internal.util.plain import plain_text, plain_value, type_name
from otel_evals.errors import JudgeUnavailableError

MAX_LABEL = 256
"""Characters of a label, a reason or an error type."""
MAX_TEXT = 10_000
_MAX_MESSAGE = 2_000
_MAX_PROMPT = 40_000
_MAX_STEPS = 1_000
KINDS = (Score, NotScored, ScorerFailure)
_LIMITS = {
    "label": MAX_LABEL,
    "reason": MAX_LABEL,
    "error_type": MAX_LABEL,
    "span_id": MAX_LABEL,
    "name": MAX_LABEL,
    "model": MAX_LABEL,
    "explanation": MAX_TEXT,
    "message": _MAX_MESSAGE,
    "error": _MAX_MESSAGE,
    "prompt": _MAX_PROMPT,
}
"""Characters of texts in outcomes and their steps, by field."""


def failure_of(error: BaseException) -> ScorerFailure:
    """Convert an exception to a failure; a step's failure is named after its cause."""
    cause = root_cause(error)
    named = getattr(error, "error_type", None)
    return ScorerFailure(
        error_type=plain_text(named, MAX_LABEL) if named and isinstance(named, str) else type_name(cause),
        message=plain_text(cause, _MAX_MESSAGE) or type_name(cause),
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
    return tuple(map(bounded, steps[:_MAX_STEPS]))


def problem_of(outcome: Any) -> str:
    if isinstance(outcome, Score) and not math.isfinite(outcome.value + (outcome.agreement or 0)):
        return f"a number that is not finite: {outcome!r:.200}"
    if isinstance(outcome, NotScored) and not outcome.reason:
        return "a NotScored without a reason"
    return ""


def bounded(record: Any) -> Any:
    """Return an outcome or a step with texts of limited length, which can be encoded."""
    changed: dict[str, Any] = {
        name: plain_text(text, limit)
        for name, limit in _LIMITS.items()
        if isinstance(text := getattr(record, name, None), str)
    }
    if isinstance(record, StepRecord):
        changed["result"] = plain_value(record.result)
    if isinstance(record, KINDS):
        changed["steps"] = tuple(map(bounded, record.steps[:_MAX_STEPS]))
    if isinstance(record, Score):
        changed["value"] = record.value + 0.0  # no negative zero
    return replace(record, **changed)
