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
    """User message; judged content stands inside fences."""
    schema: type[BaseModel] | None = None
    """Form of the answer; None asks for plain text."""
    scorer_id: str = ""
    step: str = ""
    mark: str = ""
    """The fences' random mark: differs each time, so a cache leaves it out of the key."""
    sample: int = 0
    """Which vote this is; votes are never answered from each other's cache entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """A judge's answer."""

    value: Any
    """An instance of the request's schema, or text."""
    model: str
    """The model that answered, as the provider names it."""
    usage: Usage = Usage()  # noqa: RUF009  # frozen
    cost: float | None = None
    """US dollars; None when the price is unknown, which is never the same as zero."""
    attempts: int = 1
    """Calls made, repairs and retries included."""


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
