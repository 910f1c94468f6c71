"""What the built-in scorers share: rounding, means, context sources, checks of options."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from otel_evals._internal.context import Params, Resolver, documents, static
from otel_evals._internal.judges.fence import Slot
from otel_evals._internal.model import NotScored
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer
from otel_evals.errors import ConfigError

_P = TypeVar("_P")
_A = TypeVar("_A")


def round_half_up(value: float) -> float:
    """Two decimals, halves up: 0.125 becomes 0.13, 2.675 becomes 2.68."""
    return math.floor((value + 2.220446049250313e-16) * 100 + 0.5) / 100


def mean_worth(verdicts: Sequence[str], **worth: float) -> float:
    """Mean worth of verdicts; those not named are worth nothing."""
    return sum(worth.get(verdict, 0.0) for verdict in verdicts) / len(verdicts)


def with_reason(
    scorer: StepScorer[_P, _A],
    prompt: str,
    explain: bool,
    data: Callable[[Params[Any, Any]], Mapping[str, Slot | NotScored]] | None = None,
) -> StepScorer[_P, _A]:
    """The scorer with a judge-written reason, if `explain`. `$scale` is the scorer's scale."""
    if not explain:
        return scorer
    scale = scorer.scale or 1.0
    step = PromptStep(
        prompt=prompt,
        schema=str,
        data=lambda params: {"scale": scale, **(data(params) if data else {})},
    )
    return scorer.generate_reason(step)


def context_source(scorer_id: str, get_context: Resolver | None, context: Sequence[str] | None) -> Resolver:
    """The resolver of a context scorer: its own, else fixed pieces, else the retrieved documents.

    Raises:
        ConfigError: `context` is there but empty.
    """
    if get_context is not None:
        return get_context
    if context is None:
        return documents()
    if not context:
        raise ConfigError(f"{scorer_id}.context", "is empty: name pieces, or leave it out to use documents")
    return static(*context)


def check_range(field: str, value: float, low: float = 0.0, high: float = math.inf) -> float:
    """`value` if it lies within the bounds.

    Raises:
        ConfigError: it does not.
    """
    if not low <= value <= high:
        bounds = f"within {low:g}..{high:g}" if high < math.inf else f"at least {low:g}"
        raise ConfigError(field, f"must be {bounds}, not {value!r}")
    return value
