"""Judge calls of a rule for one scored run, and their cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from otel_evals._internal.scorers.kit.scorer import Scorer


def judge_calls(scorer: Scorer, input_tokens: int, output_tokens: int) -> list[dict[str, Any]]:
    """Return `model`, `calls` and `price` per judge for one scored run; empty for scorers in code.

    `calls` is a lower bound: steps in code may make more calls, and a malformed answer is repaired.
    `price` is US dollars per call of the given length; None if unknown.
    """
    judges = {judge.model: judge for judge in judges_of(scorer)}
    counts = Counter(judge.model for judge in judges_of(scorer))
    return [
        {"model": model, "calls": count, "price": _price(judges[model], input_tokens, output_tokens)}
        for model, count in counts.items()
    ]


def judges_of(scorer: Any) -> Iterator[Any]:
    """Yield the judge of every prompt, of all members of a panel."""
    for member in getattr(scorer, "members", ()):
        yield from judges_of(member)
    if not hasattr(scorer, "steps"):
        return
    # Most scorers ask no judge: what judges need is loaded for the others only.
    from otel_evals._internal.scorers.kit.prompt import PromptStep
    from otel_evals._internal.scorers.kit.steps import StepScorer

    if isinstance(scorer, StepScorer):
        for step in scorer.steps.values():
            judge = (step.judge or scorer.judge) if isinstance(step, PromptStep) else None
            if judge is not None:
                yield judge


def missing_key(judge: Any) -> str | None:
    """Return the environment variable of a judge's key if it is not set; None if unknown."""
    from otel_evals._internal.judges.model_judge import ModelJudge

    judge = getattr(judge, "judge", judge)  # behind a cache
    return judge.missing_key() if isinstance(judge, ModelJudge) else None


def _price(judge: Any, input_tokens: int, output_tokens: int) -> float | None:
    judge = getattr(judge, "judge", judge)  # behind a cache
    prices = getattr(judge, "input_price", None), getattr(judge, "output_price", None)
    if None in prices and find_spec("litellm") is not None:
        from otel_evals._internal.judges.litellm import price_of

        prices = price_of(judge.model)
    if prices[0] is None or prices[1] is None:
        return None
    return float(input_tokens * prices[0] + output_tokens * prices[1]) / 1e6
