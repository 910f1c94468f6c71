"""The interface of judges: instructions, a prompt and a schema in; a validated answer with its cost out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from otel_evals._internal.model import Usage


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


class Judge(Protocol):
    """Answers questions about a run.

    A judge may also have `redact`, a function applied to judged text before it appears in a prompt; by
    default common forms of secrets are removed.
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
