"""From a model's name to a judge."""

from __future__ import annotations

from otel_evals.errors import ConfigError
from otel_evals.judge.litellm import LiteLLMJudge
from otel_evals.judge.socket import Judge

__all__ = ["resolve_judge"]


def resolve_judge(judge: Judge | str) -> Judge:
    """A judge as it is; a model's name, such as `openai/gpt-5-mini`, as a LiteLLMJudge.

    Raises:
        ConfigError: it is neither, or LiteLLM is not installed.
    """
    if isinstance(judge, str):
        return LiteLLMJudge(judge)
    if not callable(getattr(judge, "ask", None)):
        raise ConfigError("judge", f"must be a model's name or have an `ask` method, not {judge!r:.60}")
    return judge
