"""Encodes undelivered evaluations as JSON values for the queue's file, and decodes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import ValidationError, convert
from msgspec.structs import asdict

from otel_evals._internal.deliver.record import plain
from otel_evals._internal.model import (
    Direction,
    Dropped,
    Evaluation,
    NotScored,
    Sampled,
    Score,
    ScorerFailure,
)

_OUTCOMES: dict[str, Any] = {kind.status: kind for kind in (Score, NotScored, ScorerFailure, Dropped)}


def stored(evaluation: Evaluation) -> dict[str, Any]:
    """Return an evaluation as JSON values; step results that JSON cannot represent become text."""
    values = {name: plain(value) for name, value in asdict(evaluation).items()}
    return {**values, "status": evaluation.status, "direction": evaluation.direction.value}


def restored(values: Mapping[str, Any]) -> Evaluation:
    """Invert `stored`; raise ValueError if the values are not a stored evaluation."""
    try:
        given = dict(values)
        kinds = {"outcome": _OUTCOMES[given.pop("status")], "sampled": Sampled, "direction": Direction}
        return Evaluation(**given | {name: convert(given[name], kind) for name, kind in kinds.items()})
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(f"not a stored evaluation: {error!r}") from error
