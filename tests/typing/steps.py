"""How the four-step builder accumulates types, for the type checker alone: never run, checked strictly."""

from __future__ import annotations

from typing import Any, assert_type

from pydantic import BaseModel

from otel_evals._internal.scorers.kit.prompt import PromptStep
from otel_evals.context import Params, tool_results
from otel_evals.model import NotScored
from otel_evals.scorers import ReasonParams, StepScorer, hallucination, step_scorer


class Prices(BaseModel):
    prices: list[float]


def find(params: Params[None, None]) -> list[str] | NotScored:
    return (params.run.output or "").split() or NotScored(reason="no_words")


async def count(params: Params[list[str], None]) -> int:
    return len(params.results.preprocess)


def score(params: Params[list[str], int]) -> float:
    return params.results.analyze / 10


def why(params: ReasonParams[list[str], int]) -> str:
    return f"{params.score:.1f}"


built = step_scorer("words").preprocess(find).analyze(count).generate_score(score).generate_reason(why)
assert_type(built, StepScorer[list[str], int])

asked = step_scorer("prices", judge="openai/gpt-5-mini", get_context=tool_results()).analyze(
    PromptStep(prompt="Which prices does $output name?", schema=Prices)
)
assert_type(asked, StepScorer[None, Prices])
assert_type(hallucination("openai/gpt-5-mini"), StepScorer[None, Any])

# a score step that expects other results than the steps before it give is an error
step_scorer("wrong").analyze(PromptStep(prompt="$output", schema=Prices)).generate_score(score)  # type: ignore[arg-type]
