"""Statements of a text against material: hallucination, faithfulness, recall of the context, summaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.bounds import round_half_up
from otel_evals._internal.scorers.judged import Judgement, Slots, build, material, pieces_of
from otel_evals._internal.scorers.kit.context import AnyParams, Resolver
from otel_evals._internal.scorers.kit.missing import missing
from otel_evals._internal.scorers.kit.steps import StepScorer
from otel_evals.errors import ConfigError


def hallucination(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    without_context: bool = False,
    scale: float = 1.0,
    id: str = "hallucination",
) -> StepScorer[None, Any]:
    """The share of an answer's claims that the reference material contradicts or does not support.

    `faithfulness` is the same judgement in the other direction. If both score a run with the same judge and
    material, the judge is asked once.

    Range: 0..scale, lower is better.
    Formula: contradicted or absent claims / claims * scale, rounded to two decimals (Mastra evals,
    hallucination scorer).
    Needs: the final answer; reference material from `get_context` or `context`, by default the results of
    the run's tools and retrievers; the user's words help.
    Not scored: `output_not_recorded`, `output_empty`, `output_captured_off`; `no_context` if there is no
    material, unless `without_context`; `no_claims` if the answer claims nothing.
    Cost: one judge call.

    Args:
        without_context: judge even if there is no material; every claim then counts as hallucinated.

    Raises:
        ConfigError: `scale` is not positive, or the judge cannot be used.
    """
    return build(
        "hallucination",
        model,
        id=id,
        scale=scale,
        get_context=material(id, get_context, context),
        without_context=without_context,
    )


def faithfulness(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    without_context: bool = False,
    scale: float = 1.0,
    id: str = "faithfulness",
) -> StepScorer[None, Any]:
    """The share of an answer's claims that the context supports.

    `hallucination` is the same judgement in the other direction. If both score a run with the same judge
    and context, the judge is asked once.

    Range: 0..scale, higher is better.
    Formula: supported claims / claims * scale, rounded to two decimals (Mastra evals, faithfulness scorer).
    Needs: the final answer; context from `get_context` or `context`, by default the results of the run's
    tools and retrievers; the user's words help.
    Not scored: `output_not_recorded`, `output_empty`, `output_captured_off`; `no_context` if there is none,
    unless `without_context`; `no_claims` if the answer claims nothing.
    Cost: one judge call.

    Raises:
        ConfigError: `scale` is not positive, or the judge cannot be used.
    """
    return build(
        "faithfulness",
        model,
        id=id,
        scale=scale,
        get_context=material(id, get_context, context),
        without_context=without_context,
    )


def context_recall(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    scale: float = 1.0,
    id: str = "context_recall",
) -> StepScorer[None, Any]:
    """The share of the expected answer's claims that the retrieved context supports.

    Range: 0..scale, higher is better.
    Formula: supported claims / claims * scale, rounded to two decimals (Mastra evals, context recall
    scorer).
    Needs: an expected answer (`run.ground_truth`), and pieces from `get_context` or `context`, by default
    the run's retrieved documents; the user's words help.
    Not scored: `ground_truth_not_recorded` (always so on live traffic), `no_context`, `no_claims`.
    Cost: one judge call.

    Raises:
        ConfigError: `scale` is not positive, `context` is empty, or the judge cannot be used.
    """
    return build(
        "context_recall",
        model,
        id=id,
        scale=scale,
        get_context=pieces_of(id, get_context, context),
    )


def summarization(
    model: Judge | str,
    *,
    source: str | Callable[[Run], str | None] | None = None,
    max_questions: int = 10,
    scale: float = 1.0,
    id: str = "summarization",
) -> StepScorer[None, Any]:
    """The lower of a summary's accuracy and its coverage of the source.

    Range: 0..scale, higher is better.
    Formula: min(supported claims / claims, covered points / points) * scale, rounded to two decimals (Mastra
    evals, summarization scorer).
    Needs: the final answer, which is the summary, and its source.
    Not scored: `no_claims` or `no_questions` if there is nothing to compare; input or output not recorded.
    Cost: one judge call.

    Args:
        source: a text, or a function of the run; by default the user's words of this turn.
        max_questions: maximum number of main points.

    Raises:
        ConfigError: `max_questions` or `scale` is out of range, or the judge cannot be used.
    """
    if max_questions < 1:
        raise ConfigError(f"{id}.max_questions", f"must be at least 1, not {max_questions}")

    def original(run: Run) -> str | NotScored:
        found = source(run) if callable(source) else source
        return found or missing(run, "input") or run.input or ""

    # A judge may list more points than it was asked for: only the first ones count.
    def score(params: AnyParams, kind: Judgement) -> Score | NotScored:
        reply = params.results.analyze
        points = reply.points[:max_questions]
        if not reply.claims:
            return NotScored(reason="no_claims", explanation="the summary claims nothing")
        if not points:
            return NotScored(reason="no_questions", explanation="the source has no main point")
        supported: Score = kind.score(reply)
        lost = [point.point for point in points if point.verdict == "missing"]
        right = sum(claim.verdict == "supported" for claim in reply.claims) / len(reply.claims)
        lines = [supported.explanation or "", *(f"missing: {point}" for point in lost)]
        value = min(right, 1 - len(lost) / len(points))
        return Score(value=round_half_up(value * scale), explanation="\n".join(lines))

    def slots(params: AnyParams) -> Slots:
        return {"source": original(params.run), "max_points": max_questions}

    return build("summarization", model, id=id, scale=scale, slots=slots, score=score)
