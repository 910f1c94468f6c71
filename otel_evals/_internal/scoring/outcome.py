"""Converts whatever a scorer returned or raised to an outcome. Nothing here raises.

Scorers are users' code: an exception's `__str__` may raise, a Score may have a list as its label, a step's
result may contain itself. An outcome built here has plain values of the declared types, bounded in size,
which can be counted, stored and exported safely.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

from otel_evals._internal.model import ContextSeen, NotScored, Score, ScorerFailure, StepRecord, Usage
from otel_evals._internal.util.plain import attribute, plain_text, plain_value, type_name
from otel_evals.errors import JudgeUnavailableError

MAX_LABEL = 256
"""Characters of a label, a reason or an error type."""
_MAX_TEXT = 10_000
_MAX_MESSAGE = 2_000
_MAX_PROMPT = 40_000
_MAX_STEPS = 1_000
_MAX_PIECES = 10_000
_MAX_COUNT = 2**62

_T = TypeVar("_T")


def to_outcome(value: object, *, attempts: int = 1) -> Score | NotScored | ScorerFailure:
    """Convert an answer or an exception to an outcome.

    A Score or NotScored keeps its meaning; other fields of a wrong type are dropped. A Score without a
    finite number, a NotScored without a reason, an exception and any other object are failures.
    """
    kind = type(value)
    try:
        if kind is Score and _is_plain(value):  # most are: the rest costs ten times as much
            return value  # type: ignore[return-value]  # by its type
        if issubclass(kind, Score):
            return _score(value, attempts)
        if issubclass(kind, NotScored):
            return _not_scored(value, attempts)
        if issubclass(kind, ScorerFailure):
            return _failure(value, attempts)
        if issubclass(kind, BaseException):
            return failure_of(value, attempts=attempts)  # type: ignore[arg-type]  # by its type
    except BaseException as error:  # an attribute that exits, say
        return _wrong(f"a {type_name(value)} that cannot be read ({type_name(error)})", attempts)
    return _wrong(f"a {type_name(value)}", attempts)


def failure_of(error: BaseException, *, attempts: int = 1) -> ScorerFailure:
    """Convert an exception to a failure; a step's failure is named after its cause."""
    cause = root_cause(error)
    return ScorerFailure(
        error_type=_label(error, "error_type") or type_name(cause),
        message=plain_text(cause, _MAX_MESSAGE) or type_name(cause),
        attempts=_count(attempts, 1),
        steps=steps_of_error(error),
    )


def root_cause(error: BaseException) -> BaseException:
    """Return the exception that made a step fail; any exception without steps is its own cause."""
    cause = attribute(error, "__cause__")
    carries_steps = attribute(error, "steps") is not None
    return cause if carries_steps and issubclass(type(cause), BaseException) else error


def asked_wait(error: BaseException) -> float | None:
    """Return the seconds that an unavailable judge asked to wait, 0 by default; None for other errors."""
    if not issubclass(type(error), JudgeUnavailableError):
        return None
    return max(0.0, _number(attribute(error, "retry_after")) or 0.0)


def steps_of_error(error: object) -> tuple[StepRecord, ...]:
    """Return the records of the steps that an exception or an outcome carries."""
    given = attribute(error, "steps")
    if not issubclass(type(given), Iterable):
        return ()
    nothing: list[object] = []
    found = _total(lambda: list(islice(given, _MAX_STEPS)), nothing)
    return tuple(_step(step) for step in found if issubclass(type(step), StepRecord))


# --- outcomes, field by field ---


def _is_plain(score: Any) -> bool:
    """Return True if a Score has no steps, and only short values of the declared types."""
    return (
        type(score.value) is float
        and math.isfinite(score.value)
        and score.steps == ()
        and type(score.steps) is tuple
        and score.agreement is None
        and score.span_id is None
        and _is_plain_text(score.label, MAX_LABEL)
        and _is_plain_text(score.explanation, _MAX_TEXT)
    )


def _is_plain_text(text: object, limit: int) -> bool:
    return text is None or (type(text) is str and len(text) <= limit and text.isascii())


def _score(score: Any, attempts: int) -> Score | ScorerFailure:
    value = _number(attribute(score, "value"))
    if value is None:
        return _wrong("a Score without a finite number", attempts, "ValueError")
    agreement = _number(attribute(score, "agreement"))
    # adding 0 removes a negative zero
    return Score(
        value=value + 0.0,
        label=_label(score, "label"),
        agreement=agreement,
        span_id=_label(score, "span_id"),
        **_shared(score),
    )


def _not_scored(given: Any, attempts: int) -> NotScored | ScorerFailure:
    reason = _label(given, "reason")
    if not reason:
        return _wrong("a NotScored without a reason", attempts)
    return NotScored(reason=reason, **_shared(given))


def _failure(given: Any, attempts: int) -> ScorerFailure:
    return ScorerFailure(
        error_type=_label(given, "error_type") or type_name(given),
        message=_text(attribute(given, "message"), _MAX_MESSAGE) or "",
        attempts=_count(attribute(given, "attempts"), attempts),
        steps=steps_of_error(given),
    )


def _shared(given: object) -> dict[str, Any]:
    explanation = _text(attribute(given, "explanation"), _MAX_TEXT)
    return {"explanation": explanation, "steps": steps_of_error(given)}


def _wrong(what: str, attempts: int, error_type: str = "TypeError") -> ScorerFailure:
    message = f"the scorer returned {what}, not a Score with a finite value or a NotScored with a reason"
    return ScorerFailure(error_type=error_type, message=message, attempts=_count(attempts, 1))


def _step(step: object) -> StepRecord:
    context, usage = attribute(step, "context"), attribute(step, "usage")
    return StepRecord(
        name=_label(step, "name") or "step",
        result=plain_value(attribute(step, "result")),
        prompt=_text(attribute(step, "prompt"), _MAX_PROMPT),
        model=_label(step, "model"),
        usage=_usage(usage) if issubclass(type(usage), Usage) else Usage(),
        cost=_number(attribute(step, "cost")),
        attempts=_count(attribute(step, "attempts"), 1),
        start_time=_count(attribute(step, "start_time"), 0),
        duration=_number(attribute(step, "duration")) or 0.0,
        context=_context(context) if issubclass(type(context), ContextSeen) else None,
        links=_links(attribute(step, "links")),
        evidence_cut=attribute(step, "evidence_cut") is True,
        error=_text(attribute(step, "error"), _MAX_MESSAGE),
    )


def _links(given: object) -> tuple[tuple[str, str], ...]:
    if type(given) is not tuple:
        return ()
    pairs = (pair for pair in given[:_MAX_STEPS] if type(pair) is tuple and len(pair) == 2)
    return tuple((plain_text(trace, 32), plain_text(span, 16)) for trace, span in pairs)


def _usage(usage: object) -> Usage:
    return Usage(**{name: _count(attribute(usage, name), 0) for name in Usage.__struct_fields__})


def _context(seen: object) -> ContextSeen:
    text = attribute(seen, "text")
    pieces = text if type(text) is tuple else ()
    return ContextSeen(
        digest=_label(seen, "digest") or "",
        pieces=_count(attribute(seen, "pieces"), 0),
        truncated=attribute(seen, "truncated") is True,
        text=None if text is None else tuple(plain_text(p, _MAX_PROMPT) for p in pieces[:_MAX_PIECES]),
    )


# --- fields ---


def _label(thing: object, name: str) -> str | None:
    return _text(attribute(thing, name), MAX_LABEL)


def _text(value: object, limit: int) -> str | None:
    return plain_text(value, limit) if issubclass(type(value), str) else None


def _number(value: object) -> float | None:
    """Return a finite number as exactly a float, otherwise None."""
    if not issubclass(type(value), numbers.Real):
        return None
    number = _total(lambda: float.__float__(float(value)), None)  # type: ignore[arg-type]  # is a number
    return number if number is not None and math.isfinite(number) else None


def _count(value: object, default: int) -> int:
    if not issubclass(type(value), int):
        return default
    number: int = int.__int__(value)  # type: ignore[arg-type]  # is an int
    return min(max(number, 0), _MAX_COUNT)


def _total(read: Callable[[], _T], default: _T) -> _T:
    try:
        return read()
    except BaseException:  # SystemExit of a property, say: it must not end the engine's thread
        return default
