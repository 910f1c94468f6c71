"""Judges: the interface, the one behind LiteLLM, and the one that tests script."""

from otel_evals.judge.judge import Judge, JudgeReply, JudgeRequest
from otel_evals.judge.litellm import LiteLLMJudge
from otel_evals.judge.scripted import ScriptedJudge

__all__ = ["Judge", "JudgeReply", "JudgeRequest", "LiteLLMJudge", "ScriptedJudge"]
