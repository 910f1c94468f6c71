"""Encodes undelivered evaluations as JSON values for the queue's file, and decodes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import asdict

from otel_evals._internal.deliver.record import plain
from otel_evals._internal.model import (
    ContextSeen,
    Direction,
    Dropped,
    Evaluation,
    NotScored,
    Outcome,
    Sampled,
    Score,
    ScorerFailure,
    StepRecord,
    Usage,
)

_OUTCOMES: dict[str, type[Outcome]] = {
    kind.status: kind for kind in (Score, NotScored, ScorerFailure, Dropped)
}


def stored(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as JSON values; step results that JSON cannot represent become text."""
    values = {name: plain(value) for name, value in asdict(evaluation).items()}
    return {**values, "status": evaluation.status, "direction": evaluation.direction.value}


def restored(values: Mapping[str, Any]) -> Evaluation:
    """Invert `stored`; raise ValueError if the values are not a stored evaluation."""
    try:
        given = dict(values)
        outcome, kind = dict(given.pop("outcome")), _OUTCOMES[given.pop("status")]
        if "steps" in outcome:
            outcome["steps"] = tuple(_step(step) for step in outcome["steps"])
        return Evaluation(
            **{
                **given,
                "outcome": kind(**outcome),
                "sampled": Sampled(**given["sampled"]),
                "direction": Direction(given["direction"]),
            }
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a stored evaluation: {error!r}") from error


def _step(values: Mapping[str, Any]) -> StepRecord:
    context = values["context"]
    seen = None
    if context is not None:
        text = context["text"]
        seen = ContextSeen(**{**context, "text": None if text is None else tuple(text)})
    return StepRecord(**{**values, "usage": Usage(**values["usage"]), "context": seen})
