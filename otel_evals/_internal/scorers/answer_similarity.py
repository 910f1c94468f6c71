"""Similarity of an answer and the expected one, unit by unit."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator

from otel_evals._internal.context import Params
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored
from otel_evals._internal.scorers import common
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer

INSTRUCTIONS = """\
You compare an answer with the expected answer by meaning. Wording, order, length and language do not
matter; what is said does. You do not judge which of the two is right."""

UNITS = """\
Take both texts below apart into units of meaning: one fact, instruction or statement each, understandable
alone, with figures and names exactly as written. Give the units of the answer as output_units and those of
the expected answer as ground_truth_units.

The answer:
$output

The expected answer:
$expected"""

COMPARISON = """\
Compare the units of an answer with the units of the expected answer.

For each unit of the expected answer, in their order, give the unit of the answer that fits best (none if
there is none) and how it matches:
exact: it says the same in nearly the same words.
semantic: it says the same in other words.
partial: it says a part of it, or it less exactly.
missing: the answer does not say it. Then list as extra_in_output the units of the answer that say something
the expected answer does not say, and as contradictions the pairs of units that cannot both be true.

The units of the expected answer:
$wanted

The units of the answer:
$given"""

REASON = """\
An answer was compared with the expected one. Its score is $score on a scale from 0, nothing alike, to
$scale, the same. Explain in two or three sentences what agrees, what is missing, what is added and what
contradicts. Write in the language of the answer.

The answer:
$output

The expected answer:
$expected

How the units of the expected answer were matched:
$matches

Added:
$extra

Contradictions:
$contradictions"""

MOST_FOR_EXTRAS = 0.2
"""Most that additions take away."""

MatchType = Annotated[
    Literal["exact", "semantic", "partial", "missing"], BeforeValidator(common.normalise_word)
]


class Units(BaseModel):
    output_units: list[str]
    ground_truth_units: list[str]


class Match(BaseModel):
    ground_truth_unit: str
    output_unit: str | None = None
    match_type: MatchType
    explanation: str = ""


class Contradiction(BaseModel):
    output_unit: str
    ground_truth_unit: str
    explanation: str = ""


class SimilarityReply(BaseModel):
    matches: list[Match]
    extra_in_output: list[str] = []
    contradictions: list[Contradiction] = []


def answer_similarity(
    model: Judge | str,
    *,
    semantic_threshold: float = 0.8,
    exact_match_bonus: float = 0.2,
    missing_penalty: float = 0.15,
    contradiction_penalty: float = 1.0,
    extra_info_penalty: float = 0.05,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "answer_similarity",
) -> StepScorer[Units, SimilarityReply]:
    """The share of the expected answer in an answer, reduced by additions and contradictions.

    Range: 0..scale, higher is better. An answer that says everything in other words scores 0.67 of the
    scale by default; the full scale takes the same words.
    Formula: each unit of the expected answer is worth 1 + exact_match_bonus (exact), semantic_threshold
    (semantic), half of that (partial) or -missing_penalty (missing); their sum / (units * (1 +
    exact_match_bonus)), less contradictions * contradiction_penalty, less min(additions *
    extra_info_penalty, 0.2); kept within 0..1, times scale, rounded to two decimals (Mastra evals, answer
    similarity scorer).
    Needs: the final answer and an expected one (`run.ground_truth`).
    Not scored: `ground_truth_not_recorded` (always so on live traffic), `ground_truth_empty`, output not
    recorded; `no_units` if the expected answer says nothing.
    Cost: three judge calls (units, comparison, reason), two without `explain`.

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
        "exact": 1 + common.check_range(f"{id}.exact_match_bonus", exact_match_bonus),
        "semantic": common.check_range(f"{id}.semantic_threshold", semantic_threshold),
        "partial": semantic_threshold / 2,
        "missing": -common.check_range(f"{id}.missing_penalty", missing_penalty),
    }
    common.check_range(f"{id}.contradiction_penalty", contradiction_penalty)
    common.check_range(f"{id}.extra_info_penalty", extra_info_penalty)

    def score(params: Params[Units, SimilarityReply]) -> float:
        found = params.results.analyze
        value = sum(worth[m.match_type] for m in found.matches) / (len(found.matches) * worth["exact"])
        value -= len(found.contradictions) * contradiction_penalty
        value -= min(len(found.extra_in_output) * extra_info_penalty, MOST_FOR_EXTRAS)
        return common.round_half_up(min(1.0, max(0.0, value)) * scale)

    scorer = (
        common.judge_scorer(id, model, INSTRUCTIONS, scale=scale)
        .preprocess(PromptStep(prompt=UNITS, schema=Units))
        .analyze(
            PromptStep(
                prompt=COMPARISON,
                schema=SimilarityReply,
                data=lambda params: {
                    "wanted": _wanted(params) or _NO_UNITS,
                    "given": params.results.preprocess.output_units,
                },
                check=common.one_verdict_each(lambda reply: reply.matches, _wanted),
            )
        )
        .generate_score(score)
    )
    return common.with_reason(scorer, REASON, explain, _found)


_NO_UNITS = NotScored(reason="no_units", explanation="the expected answer says nothing to compare with")


def _wanted(params: Params[Units, SimilarityReply]) -> list[str]:
    return params.results.preprocess.ground_truth_units


def _found(params: Params[Units, SimilarityReply]) -> dict[str, list[str]]:
    found = params.results.analyze
    return {
        "matches": [f"{m.match_type}: {m.ground_truth_unit} ({m.explanation})" for m in found.matches],
        "extra": found.extra_in_output,
        "contradictions": [
            f"{c.output_unit} / {c.ground_truth_unit} ({c.explanation})" for c in found.contradictions
        ],
    }
