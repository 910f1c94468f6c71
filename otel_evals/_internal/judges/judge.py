"""The interface of judges: instructions, a prompt and a schema in; a validated answer with its cost out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from otel_evals._internal.model import Media, Usage
from otel_evals._internal.model.evaluations import total_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """One question to a judge."""

    instructions: str
    """System message."""
    prompt: str
    """User message, with judged content inside fences."""
    schema: type[BaseModel] | None = None
    """Form of the answer; None asks for plain text."""
    scorer_id: str = ""
    step: str = ""
    mark: str = ""
    """The fences' random mark, which a cache leaves out of its key."""
    sample: int = 0
    """Number of the vote; a cache keeps an answer for each."""
    media: tuple[Media, ...] = ()
    """Images and sounds to show after the prompt, which lists them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """A judge's answer."""

    value: Any
    """An instance of the request's schema, or text."""
    model: str
    """The model that answered, as the provider names it."""
    usage: Usage = Usage()  # noqa: RUF009  # frozen
    cost: float | None = None
    """US dollars; None if the price is unknown."""
    attempts: int = 1
    """Calls made, including repairs and retries."""


class CallTotals:
    """Number, usage and cost of the calls of a question or a step so far."""

    def __init__(self) -> None:
        self.calls = 0
        self.usage = Usage()
        self._costs: list[float | None] = []

    @property
    def cost(self) -> float | None:
        """US dollars; None if any call's price is unknown."""
        return total_cost(self._costs)

    def add(self, usage: Usage, cost: float | None, calls: int = 0) -> None:
        self.usage += usage
        self._costs.append(cost)
        self.calls += calls

    def reply(self, value: Any, model: str) -> JudgeReply:
        return JudgeReply(value=value, model=model, usage=self.usage, cost=self.cost, attempts=self.calls)


class Judge(Protocol):
    """Answers questions about a run.

    A judge may also have `redact`, a function applied to judged text before it appears in a prompt (by
    default common forms of secrets are removed), `takes`, the kinds of media it is shown (by default none),
    and `max_prompt_chars`, `on_cut` and `explore` as a LiteLLMJudge has.
    """

    @property
    def model(self) -> str:
        """The model asked, such as `openai/gpt-5-mini`; part of a scorer's version."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask once.

        Raises:
            JudgeUnavailableError: a later try may succeed.
            JudgeReplyError: the answer does not fit the schema, even after one repair.
        """


# --- limits and budgets, which every single call of a model passes ---


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
        """Enter before the call and leave after it; raises JudgeError if the call must not be made."""
