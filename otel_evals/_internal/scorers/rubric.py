"""Checks an answer against a list of criteria."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from otel_evals._internal.context import Params
from otel_evals._internal.judges.fence import Slot, TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scorers.common import judge_scorer, one_verdict_each
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import ReasonParams, StepScorer
from otel_evals._internal.util.options import call_with
from otel_evals.errors import ConfigError

INSTRUCTIONS = """\
You examine an answer by a list of criteria, one by one, as strictly as they are written. A criterion that
is met only in part is not satisfied. Nothing but the criteria counts."""

FINDINGS = """\
Decide for each criterion whether the answer satisfies it. Give one finding for each criterion, in their
order: the criterion, whether it is satisfied, and the reasoning in one sentence that names what in the
answer decides. Then give an overall_assessment in one sentence, in the language of the answer.

The criteria:
$criteria

The user said:
$question

The answer:
$output"""


@dataclass(frozen=True)
class Criterion:
    """One criterion of a rubric."""

    description: str
    required: bool = True
    """The answer fails without it."""


_MOST_CRITERIA = 100
_MAX_CHARS = 50_000
Criteria = str | Sequence[str | Criterion | Mapping[str, Any]]


class CriterionVerdict(BaseModel):
    criterion: str
    satisfied: bool
    reasoning: str = ""


class RubricReply(BaseModel):
    criteria: list[CriterionVerdict]
    overall_assessment: str = ""


def rubric(
    model: Judge | str,
    *,
    criteria: Criteria | Callable[[Run], Criteria | None],
    scale: float = 1.0,
    id: str = "rubric",
) -> StepScorer[list[Criterion], RubricReply]:
    """Score `scale` if an answer satisfies every required criterion, or every criterion if none is required.

    Range: 0 or scale, higher is better. Label: `satisfied` or `not_satisfied`.
    Formula: scale if all required criteria are satisfied, else 0 (Mastra evals, rubric scorer; the
    configuration, not the judge, says which criteria are required).
    Needs: the final answer; the user's words help.
    Not scored: `no_criteria`, `too_many_criteria`; output not recorded.
    Cost: one judge call.

    Args:
        criteria: a list of texts or Criterion, a text with one criterion per line, or a function of the run
            that returns one of these.

    Raises:
        ConfigError: there are no criteria, `scale` is not positive, or the judge cannot be used.
    """
    fixed = None if callable(criteria) else _parsed(criteria, id)
    if fixed == []:
        raise ConfigError(f"{id}.criteria", "is empty: name at least one")

    def prepare(params: Params[None, None]) -> list[Criterion] | NotScored:
        found = fixed if fixed is not None else _of_run(criteria, params.run, id)
        if isinstance(found, NotScored):
            return found
        if len(found) > _MOST_CRITERIA:
            return NotScored(reason="too_many_criteria", explanation=f"{len(found)} criteria")
        return found or NotScored(reason="no_criteria", explanation="this run has no criteria to judge by")

    def score(params: Params[list[Criterion], RubricReply]) -> Score:
        pairs = list(zip(params.results.preprocess, params.results.analyze.criteria, strict=True))
        decisive = [finding for criterion, finding in pairs if criterion.required]
        met = all(f.satisfied for f in (decisive or params.results.analyze.criteria))
        return Score(value=scale if met else 0.0, label="satisfied" if met else "not_satisfied")

    return (
        judge_scorer(id, model, INSTRUCTIONS, scale=scale)
        .preprocess(prepare)
        .analyze(
            PromptStep(
                prompt=FINDINGS,
                schema=RubricReply,
                data=lambda params: {
                    "criteria": _slot(params.results.preprocess, of_the_run=fixed is None),
                    "question": params.run.input or "",
                },
                check=one_verdict_each(
                    lambda reply: reply.criteria, lambda params: params.results.preprocess
                ),
            )
        )
        .generate_score(score)
        .generate_reason(_reason)
    )


def _reason(params: ReasonParams[list[Criterion], RubricReply]) -> str:
    found = params.results.analyze
    pairs = zip(params.results.preprocess, found.criteria, strict=True)
    lines = []
    for criterion, finding in pairs:
        met = "met" if finding.satisfied else "NOT met"
        optional = "" if criterion.required else " (optional)"
        lines.append(f"{met}{optional}: {criterion.description}. {finding.reasoning}")
    return "\n".join([found.overall_assessment, *lines]).strip()


def _slot(criteria: Sequence[Criterion], *, of_the_run: bool) -> Slot:
    """Return the configuration's criteria as trusted text, or a run's criteria as data, which is fenced."""
    if of_the_run:
        return [criterion.description for criterion in criteria]
    return TrustedText("\n".join(f"{n}. {c.description}" for n, c in enumerate(criteria, 1)))


def _of_run(criteria: Any, run: Run, scorer_id: str) -> list[Criterion] | NotScored:
    found = criteria(run)
    if isinstance(found, str) and len(found) > _MAX_CHARS:
        return NotScored(reason="evidence_too_long", explanation=f"{len(found)} characters of criteria")
    return [] if found is None else _parsed(found, scorer_id)


def _parsed(criteria: Criteria, scorer_id: str) -> list[Criterion]:
    if isinstance(criteria, str):
        lines = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", line).strip() for line in criteria.splitlines()]
        return [Criterion(line) for line in lines if line]
    return [_criterion(item, scorer_id) for item in criteria]


def _criterion(item: str | Criterion | Mapping[str, Any], scorer_id: str) -> Criterion:
    if isinstance(item, Criterion):
        return item
    if isinstance(item, str):
        return Criterion(item)
    made: Criterion = call_with(Criterion, item, f"{scorer_id}.criteria")
    return made
