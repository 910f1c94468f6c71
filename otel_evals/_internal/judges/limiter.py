"""The interface of limits and budgets, which every single call of a model passes.

A question to a judge may take several calls (another form, a repair); a limiter sees each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from otel_evals._internal.model import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that is about to be made."""

    model: str
    scorer_id: str
    max_input_tokens: int
    """An upper bound: a token is at least one byte."""
    max_output_tokens: int | None
    """None if the answer's length is unlimited."""
    max_cost: float | None
    """Maximum US dollars; None if the price or the answer's length is unknown."""


Settle = Callable[[Usage, float | None], None]
"""Reports a call's usage and cost in US dollars, None if unknown."""


class Limiter(Protocol):
    """Delays or refuses calls."""

    def around(self, call: Call) -> AbstractAsyncContextManager[Settle]:
        """Enter before the call and leave after it; errors of the call pass through.

        Raises:
            JudgeError: the call must not be made (now, or at all).
        """
