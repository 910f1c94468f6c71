"""The relation between the facts of an answer and of an expected answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator

from otel_evals._internal.context import Params
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import Score
from otel_evals._internal.scorers.common import check_range, judge_scorer, normalise_word
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer
from otel_evals.errors import ConfigError

INSTRUCTIONS = """\
You compare the facts of an answer with those of an expert's answer. The expert is right. Style, order,
length, language and punctuation do not count."""

COMPARISON = """\
Compare the facts of the answer with those of the expert's answer, and choose the relation that fits best:

same: both state the same facts.
narrower: the answer states only a part of the expert's facts and contradicts none.
broader: the answer states all the expert's facts and adds others that do not contradict them.
immaterial: they differ, but in nothing that matters for what the user asked.
contradicts: the answer contradicts the expert in at least one fact that matters.

Give the reason in one or two sentences that name the facts that decide, in the language of the answer; then
the relation.

The user said:
$question

The expert's answer:
$expected

The answer:
$output"""

Relation = Literal["same", "narrower", "broader", "immaterial", "contradicts"]
WORTH: Mapping[str, float] = {
    "same": 1.0,
    "immaterial": 1.0,
    "broader": 0.6,
    "narrower": 0.4,
    "contradicts": 0.0,
}


class FactualityReply(BaseModel):
    reason: str = ""
    relation: Annotated[Relation, BeforeValidator(normalise_word)]


def factuality(
    model: Judge | str,
    *,
    worth: Mapping[str, float] | None = None,
    scale: float = 1.0,
    id: str = "factuality",
) -> StepScorer[None, FactualityReply]:
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
    worths = {**WORTH, **(worth or {})}
    if unknown := sorted(worths.keys() - WORTH.keys()):
        known = ", ".join(get_args(Relation))
        raise ConfigError(f"{id}.worth", f"knows no relation {unknown[0]!r}; known: {known}")
    for relation, value in worths.items():
        check_range(f"{id}.worth.{relation}", value, 0.0, 1.0)

    def score(params: Params[None, FactualityReply]) -> Score:
        relation = params.results.analyze.relation
        return Score(value=worths[relation] * scale, label=relation)

    return (
        judge_scorer(id, model, INSTRUCTIONS, scale=scale)
        .analyze(
            PromptStep(
                prompt=COMPARISON,
                schema=FactualityReply,
                data=lambda params: {"question": params.run.input or ""},
            )
        )
        .generate_score(score)
        .generate_reason(lambda params: params.results.analyze.reason)
    )
