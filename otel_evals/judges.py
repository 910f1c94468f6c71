"""Judges: the interface, LiteLLM, limits, budgets, caches and a scripted judge for tests."""

from otel_evals._internal.judges.budget import Budget
from otel_evals._internal.judges.cache import CachedJudge
from otel_evals._internal.judges.call_limits import JudgeLimits
from otel_evals._internal.judges.judge import Judge, JudgeReply, JudgeRequest
from otel_evals._internal.judges.litellm import LiteLLMJudge
from otel_evals._internal.judges.scripted import ScriptedJudge

__all__ = [
    "Budget",
    "CachedJudge",
    "Judge",
    "JudgeLimits",
    "JudgeReply",
    "JudgeRequest",
    "LiteLLMJudge",
    "ScriptedJudge",
]
