"""Removes content from outcomes, where content capture is off."""

from __future__ import annotations

import re

from msgspec.structs import replace

from otel_evals._internal.model import NotScored, Outcome, Score, ScorerFailure, StepRecord

_LONGEST_NAME = 100
# One word: a sentence in its place could quote the run.
_NAME = re.compile(r"[\w.:-]{1,100}")
_LABEL = re.compile(r"[\w.:/+%<>=-]+( [\w.:/+%<>=-]+){0,2}")
_LONGEST_LABEL = 40
_WITHHELD = "withheld"


def without_content(outcome: Outcome) -> Outcome:
    """Return the outcome without anything that could quote the run.

    Keeps labels of up to three words, one-word reasons and error types; others become `withheld`.
    """
    match outcome:
        case Score():
            return replace(outcome, label=_label(outcome.label), explanation=None, steps=_bare(outcome.steps))
        case NotScored():
            return replace(
                outcome, reason=_name(outcome.reason), explanation=None, steps=_bare(outcome.steps)
            )
        case ScorerFailure():
            kind = _name(outcome.error_type)
            # The message may quote the run: its place is taken by the type.
            return replace(outcome, error_type=kind, message=kind, steps=_bare(outcome.steps))
    return outcome


def _name(text: str) -> str:
    return text if _NAME.fullmatch(text) else _WITHHELD


def _label(text: str | None) -> str | None:
    if text is None or (len(text) <= _LONGEST_LABEL and _LABEL.fullmatch(text)):
        return text
    return _WITHHELD


def _kind_of(error: str) -> str:
    """Return the exception's type, which precedes its message; a scorer may set any text."""
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
