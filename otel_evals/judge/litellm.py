"""LiteLLM as judge: any provider it knows, and any OpenAI-compatible address."""

from __future__ import annotations

from dataclasses import dataclass

from otel_evals.judge.socket import JudgeReply, JudgeRequest

__all__ = ["LiteLLMJudge"]


@dataclass(frozen=True)
class LiteLLMJudge:
    """Placeholder until the next commit."""

    model: str

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask once."""
        raise NotImplementedError
