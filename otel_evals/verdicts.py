"""What judge scorers share: named verdicts, checks on replies, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator

from otel_evals.context import Params, Resolver, documents, static
from otel_evals.errors import ConfigError
from otel_evals.judge.fence import Slot
from otel_evals.model import NotScored
from otel_evals.steps import PromptStep, StepScorer

__all__ = [
    "Level",
    "YesNo",
    "YesNoUnsure",
    "explained",
    "material",
    "normalised",
    "one_each",
    "round2",
    "share",
    "within",
]

_P = TypeVar("_P")
_A = TypeVar("_A")

_EDGES = " \t\r\n.,;:!?\"'`*_()[]。、！？，"  # noqa: RUF001  # of Chinese and Japanese too


def normalised(verdict: Any) -> Any:
    """A judge's word without what models put around it: case, blanks, quotes, punctuation."""
    return verdict.strip(_EDGES).casefold() if isinstance(verdict, str) else verdict


YesNo = Annotated[Literal["yes", "no"], BeforeValidator(normalised)]
YesNoUnsure = Annotated[Literal["yes", "no", "unsure"], BeforeValidator(normalised)]
Level = Annotated[Literal["high", "medium", "low", "none"], BeforeValidator(normalised)]


def round2(value: float) -> float:
    """Two decimals, halves up: 0.125 becomes 0.13, 2.675 becomes 2.68."""
    return math.floor((value + 2.220446049250313e-16) * 100 + 0.5) / 100


def share(verdicts: Sequence[str], **worth: float) -> float:
    """Mean worth of verdicts; those not named are worth nothing."""
    return sum(worth.get(verdict, 0.0) for verdict in verdicts) / len(verdicts)


def one_each(
    verdicts: Callable[[Any], Sequence[Any]],
    things: Callable[[Params[Any, Any]], Sequence[Any]],
    *,
    at_least: bool = False,
) -> Callable[[Params[Any, Any], Any], str | None]:
    """A check that a reply holds one verdict for each thing it was asked about; with `at_least`, or more."""

    def check(params: Params[Any, Any], reply: Any) -> str | None:
        got, wanted = len(verdicts(reply)), len(things(params))
        if got == wanted or (at_least and got > wanted):
            return None
        return f"it holds {got} verdicts for {wanted} items; give exactly one for each"

    return check


def explained(
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


def material(scorer_id: str, get_context: Resolver | None, context: Sequence[str] | None) -> Resolver:
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


def within(field: str, value: float, low: float = 0.0, high: float = math.inf) -> float:
    """`value` if it lies within the bounds.

    Raises:
        ConfigError: it does not.
    """
    if not low <= value <= high:
        bounds = f"within {low:g}..{high:g}" if high < math.inf else f"at least {low:g}"
        raise ConfigError(field, f"must be {bounds}, not {value!r}")
    return value
