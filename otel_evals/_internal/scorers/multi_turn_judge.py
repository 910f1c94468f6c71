"""Judges a whole conversation by a criterion."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from otel_evals._internal.context import Params
from otel_evals._internal.judges.fence import TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored, Score
from otel_evals._internal.scorers.common import judge_scorer
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.scorer import missing
from otel_evals._internal.scoring.steps import StepScorer
from otel_evals.errors import ConfigError

INSTRUCTIONS = """\
You examine what an assistant said in a conversation by one criterion, as strictly as it is written. Judge
all its turns together; what the user said is there to understand them by."""

FINDING = """\
Decide whether the assistant's turns in the conversation below, taken together, satisfy the criterion. Give
the reasoning in one to three sentences that name the turns that decide, in the language of the
conversation.

The criterion:
$criterion

The conversation, oldest first:
$turns"""


class ConversationReply(BaseModel):
    satisfied: bool
    reasoning: str = ""


def multi_turn_judge(
    model: Judge | str, *, criterion: str, scale: float = 1.0, id: str = "multi_turn_judge"
) -> StepScorer[None, ConversationReply]:
    """Score `scale` if the assistant's turns, including earlier ones, satisfy a criterion.

    Range: 0 or scale, higher is better. Label: `satisfied` or `not_satisfied`.
    Formula: scale if the criterion is satisfied, else 0 (Mastra evals, multi-turn judge scorer).
    Needs: the assistant's words of this turn; earlier turns if the spans have them.
    Not scored: `output_not_recorded` if no turn of the assistant was recorded.
    Cost: one judge call.

    Args:
        criterion: the requirement on the conversation, in words.

    Raises:
        ConfigError: `criterion` is empty, `scale` is not positive, or the judge cannot be used.
    """
    if not criterion.strip():
        raise ConfigError(
            f"{id}.criterion", "is empty: describe the criterion that the conversation must satisfy"
        )

    def score(params: Params[None, ConversationReply]) -> Score:
        met = params.results.analyze.satisfied
        return Score(value=scale if met else 0.0, label="satisfied" if met else "not_satisfied")

    return (
        judge_scorer(id, model, INSTRUCTIONS, scale=scale)
        .analyze(
            PromptStep(
                prompt=FINDING,
                schema=ConversationReply,
                data=lambda params: {"criterion": TrustedText(criterion), "turns": _turns(params)},
            )
        )
        .generate_score(score)
        .generate_reason(lambda params: params.results.analyze.reasoning)
    )


def _turns(params: Params[Any, Any]) -> list[str] | NotScored:
    run = params.run
    said = (*run.history, *run.input_messages, *run.output_messages)
    turns = [(m.role, m.text) for m in said if m.role in ("user", "assistant") and m.text]
    if run.output and ("assistant", run.output) not in turns:
        turns.append(("assistant", run.output))
    if not any(role == "assistant" for role, _ in turns):
        return missing(run, "output") or NotScored(reason="output_not_recorded")
    return [f"{role}: {text}" for role, text in turns]
