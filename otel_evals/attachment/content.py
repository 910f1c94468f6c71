"""Removes content from outcomes, where content capture is off."""

from __future__ import annotations

from dataclasses import replace

from otel_evals.model import NotScored, Outcome, Score, ScorerFailure, StepRecord

__all__ = ["without_content"]


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


def _bare(steps: tuple[StepRecord, ...]) -> tuple[StepRecord, ...]:
    return tuple(
        replace(
            s,
            result=None,
            prompt=None,
            context=replace(s.context, text=None) if s.context else None,
            error=s.error.partition(":")[0] if s.error else None,  # the exception's type
        )
        for s in steps
    )
