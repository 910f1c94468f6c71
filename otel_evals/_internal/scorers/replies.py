"""Parts of the replies that built-in judge scorers ask for: fixed sets of words, and a check of counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from otel_evals._internal.context import Params

_EDGES = " \t\r\n.,;:!?\"'`*_()[]。、！？，"  # noqa: RUF001  # of Chinese and Japanese too


def normalise_word(verdict: Any) -> Any:
    """A judge's word without what models put around it: case, blanks, quotes, punctuation."""
    return verdict.strip(_EDGES).casefold() if isinstance(verdict, str) else verdict


YesNo = Annotated[Literal["yes", "no"], BeforeValidator(normalise_word)]
YesNoUnsure = Annotated[Literal["yes", "no", "unsure"], BeforeValidator(normalise_word)]
Level = Annotated[Literal["high", "medium", "low", "none"], BeforeValidator(normalise_word)]


def one_verdict_each(
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
