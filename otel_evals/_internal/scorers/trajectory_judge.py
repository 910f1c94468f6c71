"""Necessity and order of an agent's steps, by a judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from otel_evals._internal.context import Params
from otel_evals._internal.judges.fence import TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.scorers.common import judge_scorer, one_verdict_each, round_half_up, with_reason
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer
from otel_evals._internal.util.plain import as_text

INSTRUCTIONS = """\
You judge the way an agent took to do what a user wanted: its steps and their order. Whether its final
answer is right is not your concern."""

TRAJECTORY = """\
Decide for each step below whether it was necessary (was_necessary: it brought the task forward, and was not
done already) and whether it came at a sensible place (was_in_order: after what it depends on, before what
depends on it). Give one evaluation for each step, in their order, with the reasoning in one sentence. Then
list as missing_steps what should have been done and was not, as extra_steps what was done in vain, and give
an overall_assessment in one sentence.

The user said:
$input

The steps that were expected:
$wanted

The steps that were taken:
$steps"""

REASON = """\
The way an agent took was judged. Its score is $score on a scale from 0 to 1. Explain in two or three
sentences which steps were needless, out of order or missing, or that none was. Write in the language of the
user.

The user said:
$input

The judgement:
$judgement"""

NECESSARY, ORDERED, WHOLE = 0.6, 0.3, 0.1


class StepEvaluation(BaseModel):
    step_name: str
    was_necessary: bool
    was_in_order: bool
    reasoning: str = ""


class Trajectory(BaseModel):
    step_evaluations: list[StepEvaluation]
    missing_steps: list[str] = []
    extra_steps: list[str] = []
    overall_assessment: str = ""


def trajectory_judge(
    model: Judge | str,
    *,
    expected_steps: Sequence[str] | None = None,
    explain: bool = True,
    id: str = "trajectory_judge",
) -> StepScorer[None, Trajectory]:
    """Necessity, order and completeness of the agent's steps (its tool calls).

    Range: 0..1, higher is better.
    Formula: 0.6 * necessary / steps + 0.3 * in order / steps + 0.1 * steps / (steps + missing steps),
    rounded to two decimals; without any step 0 if steps are missing, 0.5 if some were in vain, else 1
    (after Mastra evals, trajectory accuracy scorer, judge form, whose best score is 0.9).
    Needs: the user's words.
    Not scored: input not recorded.
    Cost: two judge calls (judgement, reason), one without `explain`.

    Args:
        expected_steps: the steps that should have been taken, in words; by default the judge decides.

    Raises:
        ConfigError: the judge cannot be used.
    """
    wanted = "\n".join(f"{n}. {step}" for n, step in enumerate(expected_steps or (), 1))
    scorer = (
        judge_scorer(id, model, INSTRUCTIONS)
        .analyze(
            PromptStep(
                prompt=TRAJECTORY,
                schema=Trajectory,
                data=lambda params: {
                    "steps": _steps(params),
                    "wanted": TrustedText(wanted or "not stated; decide by what the user wants"),
                },
                check=one_verdict_each(lambda reply: reply.step_evaluations, _steps),
            )
        )
        .generate_score(_score)
    )
    return with_reason(
        scorer, REASON, explain, lambda params: {"judgement": params.results.analyze.model_dump_json()}
    )


def _score(params: Params[None, Trajectory]) -> float:
    found = params.results.analyze
    taken, lost = len(found.step_evaluations), len(found.missing_steps)
    if not taken:
        return 0.0 if lost else 0.5 if found.extra_steps else 1.0
    necessary = sum(e.was_necessary for e in found.step_evaluations) / taken
    ordered = sum(e.was_in_order for e in found.step_evaluations) / taken
    return round_half_up(NECESSARY * necessary + ORDERED * ordered + WHOLE * taken / (taken + lost))


def _steps(params: Params[Any, Any]) -> list[str]:
    steps = []
    for c in params.run.tool_calls:
        arguments = "" if c.arguments is None else as_text(c.arguments)
        failed = f", failed: {c.error or c.error_type or 'no reason recorded'}" if c.status == "error" else ""
        steps.append(f"{c.name}({arguments}){failed}")
    return steps
