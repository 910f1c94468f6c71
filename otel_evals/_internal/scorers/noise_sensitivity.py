"""Robustness of an answer against noise in the question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, Field

from otel_evals._internal.context import Params
from otel_evals._internal.judges.fence import TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.scorers import common
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer
from otel_evals.errors import ConfigError

INSTRUCTIONS = """\
You compare two answers of the same assistant: one to a clean question, one to the same question with noise
in it, such as typing errors, distractions, false statements or instructions that do not belong there. You
judge how far the noise changed the answer for the worse. A change that does no harm is no impact."""

COMPARISON = """\
Compare the two answers below in five respects, in this order, and say for each how strong the impact of the
noise was.

Respects (dimension): accuracy (wrong statements came in), completeness (something got lost), relevance (it
strayed from the question), consistency (it contradicts itself or the clean answer), hallucination (it took
false statements from the noise, or made up others).

Impact (impact_level): none, minimal (only the wording), moderate (noticeable, the core stands), significant
(a part of the answer is damaged), severe (the answer is unusable or wrong).

Say what changed (specific_changes) and how the noise brought it about (noise_influence), each in one
sentence. List as major_issues the damages that a user would have been misled by, an empty list if there are
none.$ask

Kind of noise: $noise_type

The clean question:
$input

The answer to it:
$baseline

The question with noise:
$noisy

The answer to that:
$output"""

ASK_FOR_NUMBER = """ Give last a
robustness_score from 0, where the noise ruined the answer, to 1, where it made no difference."""

REASON = """\
An answer to a question with noise was compared with the answer to the clean question. Its score is $score
on a scale from 0, ruined by the noise, to 1, untouched. Explain in two or three sentences what the noise
changed and what it did not. Write in the language of the answer.

The answer to the question with noise:
$output

The comparison:
$dimensions

Major issues:
$issues"""

WEIGHTS = {"none": 1.0, "minimal": 0.85, "moderate": 0.6, "significant": 0.3, "severe": 0.1}

Impact = Annotated[
    Literal["none", "minimal", "moderate", "significant", "severe"], BeforeValidator(common.normalise_word)
]


class Dimension(BaseModel):
    dimension: str
    impact_level: Impact
    specific_changes: str = ""
    noise_influence: str = ""


class Levels(BaseModel):
    dimensions: list[Dimension]
    overall_assessment: str = ""
    major_issues: list[str] = []


class NoiseReply(Levels):
    robustness_score: float = Field(ge=0, le=1)


def noise_sensitivity(
    model: Judge | str,
    *,
    baseline_response: str,
    noisy_query: str,
    noise_type: str = "not stated",
    impact_weights: Mapping[str, float] | None = None,
    major_issue_penalty: float = 0.1,
    max_major_issue_penalty: float = 0.3,
    discrepancy_threshold: float = 0.2,
    form: Literal["number", "verdicts"] = "number",
    explain: bool = True,
    id: str = "noise_sensitivity",
) -> StepScorer[None, Levels]:
    """Robustness of the answer against noise in the question.

    The run's input is the clean question, its output the answer to the noisy one.

    Range: 0..1, higher is better.
    Formula: the judge's robustness number, or the mean weight of the five impact levels if that is lower by
    more than discrepancy_threshold; less min(major issues * major_issue_penalty, max_major_issue_penalty);
    never below 0, rounded to two decimals (Mastra evals, noise sensitivity scorer). With `form="verdicts"`
    the judge gives no number and the mean weight takes its place.
    Needs: the user's words and the final answer.
    Not scored: input or output not recorded. If no respect was judged, only the number counts.
    Cost: two judge calls (comparison, reason), one without `explain`.

    Args:
        baseline_response: the answer to the clean question.
        noisy_query: the question with noise.
        noise_type: kind of noise, in words.
        impact_weights: other worths of impact levels than none 1, minimal 0.85, moderate 0.6, significant
            0.3, severe 0.1.
        major_issue_penalty: subtracted for each major issue.
        max_major_issue_penalty: maximum subtracted for major issues.
        discrepancy_threshold: accepted difference of the number and the levels.
        form: `number` asks for a number and the levels, `verdicts` only for the levels.

    Raises:
        ConfigError: an option is missing or out of range, or the judge cannot be used.
    """
    if not baseline_response or not noisy_query:
        raise ConfigError(f"{id}.baseline_response", "and noisy_query are both needed, and not empty")
    weights = {**WEIGHTS, **(impact_weights or {})}
    if unknown := sorted(weights.keys() - WEIGHTS.keys()):
        raise ConfigError(
            f"{id}.impact_weights", f"knows no level {unknown[0]!r}; known: {', '.join(WEIGHTS)}"
        )
    for level, weight in weights.items():
        common.check_range(f"{id}.impact_weights.{level}", weight, 0.0, 1.0)
    common.check_range(f"{id}.major_issue_penalty", major_issue_penalty)
    common.check_range(f"{id}.max_major_issue_penalty", max_major_issue_penalty)
    common.check_range(f"{id}.discrepancy_threshold", discrepancy_threshold)
    if form not in ("number", "verdicts"):
        raise ConfigError(f"{id}.form", f"must be 'number' or 'verdicts', not {form!r}")

    def score(params: Params[None, Levels]) -> float:
        found = params.results.analyze
        levels = [weights[d.impact_level] for d in found.dimensions]
        mean = sum(levels) / len(levels) if levels else None
        number = found.robustness_score if isinstance(found, NoiseReply) else None
        value = _settle(number, mean, discrepancy_threshold)
        issues = min(len(found.major_issues) * major_issue_penalty, max_major_issue_penalty)
        return common.round_half_up(max(0.0, value - issues))

    schema: type[Levels] = NoiseReply if form == "number" else Levels
    shown = {
        "baseline": baseline_response,
        "noisy": noisy_query,
        "noise_type": TrustedText(noise_type),
        "ask": TrustedText(ASK_FOR_NUMBER if form == "number" else ""),
    }
    scorer = (
        common.judge_scorer(id, model, INSTRUCTIONS)
        .analyze(
            PromptStep(
                prompt=COMPARISON,
                schema=schema,
                data=lambda params: dict(shown),
                check=lambda params, reply: _complete(reply, form),
            )
        )
        .generate_score(score)
    )
    return common.with_reason(scorer, REASON, explain, _found)


def _settle(number: float | None, mean: float | None, threshold: float) -> float:
    """Return the judge's number, or the mean of its levels if that is clearly lower."""
    if number is None:
        return mean or 0.0
    return min(number, mean) if mean is not None and abs(number - mean) > threshold else number


def _complete(reply: Levels, form: str) -> str | None:
    return "it judges no respect" if form == "verdicts" and not reply.dimensions else None


def _found(params: Params[None, Levels]) -> dict[str, list[str]]:
    found = params.results.analyze
    lines = [
        f"{d.dimension}: {d.impact_level} ({d.specific_changes} {d.noise_influence})"
        for d in found.dimensions
    ]
    return {"dimensions": lines, "issues": found.major_issues}
