"""Judges: the interface, two implementations and one for tests, limits, budgets and caches."""

from otel_evals._internal.judges.budget import Budget
from otel_evals._internal.judges.cache import CachedJudge
from otel_evals._internal.judges.call_limits import JudgeLimits
from otel_evals._internal.judges.judge import Judge, JudgeReply, JudgeRequest, ScriptedJudge
from otel_evals._internal.judges.litellm import LiteLLMJudge
from otel_evals._internal.judges.openai_compatible import OpenAICompatibleJudge

__all__ = [
    "Budget",
    "CachedJudge",
    "Judge",
    "JudgeLimits",
    "JudgeReply",
    "JudgeRequest",
    "LiteLLMJudge",
    "OpenAICompatibleJudge",
    "ScriptedJudge",
]
