"""A scorer's properties, read and checked once."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from otel_evals._internal.model import Direction
from otel_evals._internal.util.plain import plain_text, type_name
from otel_evals.errors import ConfigError


class ScorerFacts(NamedTuple):
    """A scorer's properties, read once: they are users' code, and may raise later or change."""

    id: str
    version: str
    direction: Direction
    scale: float | None
    at_once: bool


_KINDS = {"id": str, "version": str, "direction": Direction, "at_once": bool}


def facts_of(scorer: Any) -> ScorerFacts:
    """Read a scorer's properties.

    Raises:
        ConfigError: one is missing, raises an exception or has a wrong type.
    """
    try:
        scale = getattr(scorer, "scale", None)
        facts = ScorerFacts(scorer.id, scorer.version, scorer.direction, scale, scorer.at_once)
    except Exception as error:
        fix = f"set {', '.join(ScorerFacts._fields)} when it is created"
        problem = f"cannot be read ({type_name(error)}: {plain_text(error, 200)}): {fix}"
        raise ConfigError("scorer", problem) from None
    for name, kind in _KINDS.items():
        value = getattr(facts, name)
        if not isinstance(value, kind) or value == "":
            problem = f"must be a {kind.__name__}, not {plain_text(value, 100)!r}"
            raise ConfigError(f"scorer.{name}", problem)
    check_scale(facts.id, facts.scale)
    return facts


def check_scale(scorer_id: str, scale: float | None) -> None:
    if scale is not None and not (isinstance(scale, int | float) and math.isfinite(scale) and scale > 0):
        raise ConfigError(f"{scorer_id}.scale", f"must be a positive number, not {scale!r}")
