"""Removes content from outcomes, where content capture is off."""

from __future__ import annotations

from dataclasses import replace

from otel_evals.model import NotScored, Outcome, Score, ScorerFailure, StepRecord

__all__ = ["without_content"]

_LONGEST_NAME = 100


def without_content(outcome: Outcome) -> Outcome:
    """The outcome without anything that could quote the run."""
    match outcome:
        case Score():
            return replace(outcome, explanation=None, steps=_bare(outcome.steps))
        case NotScored():
            return replace(outcome, explanation=None, steps=_bare(outcome.steps))
        case ScorerFailure():
            return replace(outcome, message=outcome.error_type, steps=_bare(outcome.steps))
    return outcome


def _kind_of(error: str) -> str:
    """The exception's type, which comes first in what we say of one; a scorer may have said anything."""
    kind = error.partition(":")[0]
    return kind if len(kind) <= _LONGEST_NAME and kind.isidentifier() else "error"


def _bare(steps: tuple[StepRecord, ...]) -> tuple[StepRecord, ...]:
    return tuple(
        replace(
            s,
            result=None,
            prompt=None,
            context=replace(s.context, text=None) if s.context else None,
            error=_kind_of(s.error) if s.error else None,
        )
        for s in steps
    )
