"""Creates judges from the configuration."""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from otel_evals._internal.judges.budget import Budget
from otel_evals._internal.judges.cache import CachedJudge
from otel_evals._internal.judges.call_limits import JudgeLimits
from otel_evals._internal.judges.judge import Judge, Limiter
from otel_evals._internal.judges.litellm import LiteLLMJudge
from otel_evals._internal.judges.openai_compatible import OpenAICompatibleJudge
from otel_evals._internal.util.options import call_with, suggestion
from otel_evals.errors import ConfigError

_COMPATIBLE = "openai-compatible/"
# Arguments that are objects of Python, which a configuration's text cannot name.
_NOT_IN_TEXT = {"limiters", "judge", "clock"}


def resolve_judge(judge: Judge | str | Mapping[str, Any]) -> Judge:
    """Return a judge as it is, or build one from a model's name or a mapping of options.

    The prefix `openai-compatible/` selects OpenAICompatibleJudge; other names are LiteLLMJudge's. A mapping
    has `model`, the judge's other options, and `limits`, `budget` (one or a list) and `cache` with the
    options of JudgeLimits, Budget and CachedJudge. Equal names and mappings give the same judge, so scorers
    with equal settings share its limits and answers. Raises ConfigError for anything else.
    """
    if isinstance(judge, str):
        judge = {"model": judge}
    if isinstance(judge, Mapping):
        # As JSON, since mappings cannot be hashed: equal ones give equal texts.
        return _built(json.dumps(dict(judge), sort_keys=True))
    if not callable(getattr(judge, "ask", None)):
        raise ConfigError("model", f"must be a model's name or have an `ask` method, not {judge!r:.60}")
    return judge


@lru_cache(maxsize=64)
def _built(text: str) -> Judge:
    options: dict[str, Any] = json.loads(text)
    limits, budgets, cache = (options.pop(name, None) for name in ("limits", "budget", "cache"))
    budgets = budgets if isinstance(budgets, list) else [budgets] if budgets else []
    # Limits come first: a call that waits for its turn has not yet reserved any budget.
    limiters: list[Limiter] = [_make(JudgeLimits, limits, "model.limits")] if limits else []
    limiters.extend(_make(Budget, budget, "model.budget") for budget in budgets)
    kind: type[LiteLLMJudge | OpenAICompatibleJudge] = LiteLLMJudge
    if str(options.get("model")).startswith(_COMPATIBLE):
        kind, options["model"] = OpenAICompatibleJudge, options["model"].removeprefix(_COMPATIBLE)
    judge: Judge = _make(kind, options, "model", limiters=tuple(limiters))
    if not cache:
        return judge
    cached: Judge = _make(CachedJudge, {} if cache is True else cache, "model.cache", judge=judge)
    return cached


def _make(kind: Any, options: Any, field: str, **objects: Any) -> Any:
    if not isinstance(options, dict):
        raise ConfigError(field, f"must be a mapping of options, not {options!r:.60}")
    known = {*inspect.signature(kind).parameters, "limits", "budget", "cache"} - _NOT_IN_TEXT
    for name in options.keys() - known:
        raise ConfigError(f"{field}.{name}", "unknown option" + suggestion(name, known))
    return call_with(kind, options | objects, field)
