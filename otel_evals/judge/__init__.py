"""Judges: the socket, the one behind LiteLLM, and the one that tests script."""

from otel_evals.judge.litellm import LiteLLMJudge
from otel_evals.judge.scripted import ScriptedJudge
from otel_evals.judge.socket import Judge, JudgeReply, JudgeRequest

__all__ = ["Judge", "JudgeReply", "JudgeRequest", "LiteLLMJudge", "ScriptedJudge"]
