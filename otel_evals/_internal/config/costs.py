"""What a rule's judges are asked for one run, and what that costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.scorer import Scorer
from otel_evals._internal.scoring.steps import StepScorer

__all__ = ["JudgeCalls", "judge_calls", "judges_of"]


@dataclass(frozen=True, kw_only=True)
class JudgeCalls:
    """The calls of one judge for one scored run."""

    model: str
    calls: int
    """At least: a step of code may ask more, and an answer of the wrong form is asked for again."""
    price: float | None
    """US dollars of one call of the given length; None where no price is known."""


def judge_calls(scorer: Scorer, input_tokens: int, output_tokens: int) -> list[JudgeCalls]:
    """What is asked of each judge for one run; empty for scorers in code.

    Args:
        scorer: its prompts are counted; those of panels, by member.
        input_tokens: assumed length of one question.
        output_tokens: assumed length of one answer.
    """
    judges = list(judges_of(scorer))
    by_model = {judge.model: judge for judge in judges}
    counts = Counter(judge.model for judge in judges)
    return [
        JudgeCalls(model=model, calls=count, price=_price(by_model[model], input_tokens, output_tokens))
        for model, count in counts.items()
    ]


def judges_of(scorer: Any) -> Iterator[Any]:
    """The judge of every prompt; those of panels, by member."""
    for member in getattr(scorer, "members", ()):
        yield from judges_of(member)
    if isinstance(scorer, StepScorer):
        for step in scorer.steps.values():
            judge = (step.judge or scorer.judge) if isinstance(step, PromptStep) else None
            if judge is not None:
                yield judge


def _price(judge: Any, input_tokens: int, output_tokens: int) -> float | None:
    judge = getattr(judge, "judge", judge)  # behind a cache
    prices = getattr(judge, "input_price", None), getattr(judge, "output_price", None)
    if None in prices and find_spec("litellm") is not None:
        from otel_evals._internal.judges.litellm_calls import load, price_of

        prices = price_of(load(), judge.model)
    if prices[0] is None or prices[1] is None:
        return None
    return float(input_tokens * prices[0] + output_tokens * prices[1]) / 1e6
