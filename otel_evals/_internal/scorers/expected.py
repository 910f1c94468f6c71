"""An answer against the expected one: the relation of their facts, and their likeness unit by unit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored, Score
from otel_evals._internal.scorers.bounds import check_range, round_half_up
from otel_evals._internal.scorers.judged import Judgement, build, worths
from otel_evals._internal.scorers.kit.context import AnyParams
from otel_evals._internal.scorers.kit.steps import StepScorer

MOST_FOR_EXTRAS = 0.2
"""Most that additions take away."""


def factuality(
    model: Judge | str,
    *,
    worth: Mapping[str, float] | None = None,
    scale: float = 1.0,
    id: str = "factuality",
) -> StepScorer[None, Any]:
    """The worth of the relation between the answer's facts and an expected answer's.

    Range: 0..scale, higher is better. Label: the relation (same, narrower, broader, immaterial,
    contradicts).
    Formula: the relation's worth * scale: same 1, immaterial 1, broader 0.6, narrower 0.4, contradicts 0
    (the classes of OpenAI evals' fact template, with the worths of autoevals).
    Needs: the final answer and an expected one (`run.ground_truth`); the user's words help.
    Not scored: `ground_truth_not_recorded` (always so on live traffic), `ground_truth_empty`, output not
    recorded.
    Cost: one judge call.

    Args:
        worth: other worths of relations, 0..1.

    Raises:
        ConfigError: an option is out of range, or the judge cannot be used.
    """
    changes = {"worth": worths(f"{id}.worth", "factuality", worth)}

    def score(params: AnyParams, kind: Judgement) -> Score:
        reply = params.results.analyze
        return Score(
            value=kind.worth[reply.relation] * scale, label=reply.relation, explanation=reply.reason or None
        )

    return build("factuality", model, id=id, scale=scale, score=score, changes=changes)


def answer_similarity(
    model: Judge | str,
    *,
    semantic_threshold: float = 0.8,
    exact_match_bonus: float = 0.2,
    missing_penalty: float = 0.15,
    contradiction_penalty: float = 1.0,
    extra_info_penalty: float = 0.05,
    scale: float = 1.0,
    id: str = "answer_similarity",
) -> StepScorer[None, Any]:
    """The share of the expected answer in an answer, reduced by additions and contradictions.

    Range: 0..scale, higher is better. An answer that says everything in other words scores 0.67 of the
    scale by default; the full scale takes the same words.
    Formula: each unit of the expected answer is worth 1 + exact_match_bonus (exact), semantic_threshold
    (semantic), half of that (partial) or -missing_penalty (missing); their sum / (units * (1 +
    exact_match_bonus)), less contradictions * contradiction_penalty, less min(additions *
    extra_info_penalty, 0.2); kept within 0..1, times scale, rounded to two decimals (Mastra evals, answer
    similarity scorer).
    Needs: the final answer and an expected one (`run.ground_truth`); the user's words help.
    Not scored: `ground_truth_not_recorded` (always so on live traffic), `ground_truth_empty`, output not
    recorded; `no_units` if the expected answer says nothing.
    Cost: one judge call.

    Args:
        semantic_threshold: worth of a unit in other words.
        exact_match_bonus: added to the worth of 1 for the same words.
        missing_penalty: subtracted for each missing unit.
        contradiction_penalty: subtracted for each contradiction.
        extra_info_penalty: subtracted for each addition.

    Raises:
        ConfigError: an option is out of range, or the judge cannot be used.
    """
    worth = {
        "exact": 1 + check_range(f"{id}.exact_match_bonus", exact_match_bonus),
        "semantic": check_range(f"{id}.semantic_threshold", semantic_threshold),
        "partial": semantic_threshold / 2,
        "missing": -check_range(f"{id}.missing_penalty", missing_penalty),
    }
    check_range(f"{id}.contradiction_penalty", contradiction_penalty)
    check_range(f"{id}.extra_info_penalty", extra_info_penalty)

    def score(params: AnyParams, kind: Judgement) -> Score | NotScored:
        reply = params.results.analyze
        if not reply.units:
            return cast("NotScored", kind.nothing)
        value = sum(kind.worth[unit.verdict] for unit in reply.units) / (
            len(reply.units) * kind.worth["exact"]
        )
        value -= len(reply.contradictions) * contradiction_penalty
        # Additions cost little: an answer may say more than is expected.
        value -= min(len(reply.extra) * extra_info_penalty, MOST_FOR_EXTRAS)
        lines = [
            kind.explained(reply.units),
            *(f"added: {extra}" for extra in reply.extra),
        ]
        lines += [f"contradiction: {each.answer} / {each.expected}" for each in reply.contradictions]
        return Score(value=round_half_up(min(1.0, max(0.0, value)) * scale), explanation="\n".join(lines))

    return build("answer_similarity", model, id=id, scale=scale, score=score, changes={"worth": worth})
