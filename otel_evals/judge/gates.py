"""The socket for what stands before every single call of a model: limits, budgets.

A question to a judge may take several calls (repairs, retries); gates see each of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Protocol, TypeVar

from otel_evals.model import Usage

__all__ = ["Call", "Gate", "Settle", "through"]

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that is about to be made."""

    model: str
    scorer_id: str
    max_input_tokens: int
    """More than the prompt can have: a token is at least one byte."""
    max_output_tokens: int | None
    """None when the answer's length is not limited."""
    max_cost: float | None
    """US dollars it can cost at most; None when the price or the answer's length is not known."""


Settle = Callable[[Usage, float | None], None]
"""Tells a gate what a call has used and cost; a cost of None is unknown."""


class Gate(Protocol):
    """Lets calls through: at once, later, or not at all."""

    def around(self, call: Call) -> AbstractAsyncContextManager[Settle]:
        """Entered before the call is made, left when it is over; errors of the call pass through.

        Raises:
            JudgeError: the call must not be made (now, or at all).
        """


async def through(
    gates: Sequence[Gate],
    call: Call,
    make: Callable[[], Awaitable[_Answer]],
    spent: Callable[[_Answer], tuple[Usage, float | None]],
) -> _Answer:
    """Make a call behind all gates, the first one outermost, and settle with each."""
    async with AsyncExitStack() as stack:
        settles = [await stack.enter_async_context(gate.around(call)) for gate in gates]
        answer = await make()
        for settle in settles:
            settle(*spent(answer))
        return answer
