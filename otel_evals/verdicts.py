"""What judge scorers share: named verdicts, checks on replies, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from otel_evals.context import Params

__all__ = ["Level", "YesNo", "YesNoUnsure", "normalised", "one_each", "round2", "share"]

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
    verdicts: Callable[[Any], Sequence[Any]], things: Callable[[Params[Any, Any]], Sequence[Any]]
) -> Callable[[Params[Any, Any], Any], str | None]:
    """A check that a reply holds one verdict for each thing it was asked about."""

    def check(params: Params[Any, Any], reply: Any) -> str | None:
        got, wanted = len(verdicts(reply)), len(things(params))
        return (
            None
            if got == wanted
            else f"it holds {got} verdicts for {wanted} items; give exactly one for each"
        )

    return check
