"""How much of an answer is to the point of what the user asked."""

from __future__ import annotations

import math

from pydantic import BaseModel

from otel_evals._internal.context import Params
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored
from otel_evals._internal.scorers.common import mean_worth, round_half_up
from otel_evals._internal.scorers.replies import YesNoUnsure, one_verdict_each
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer, step_scorer
from otel_evals.errors import ConfigError

INSTRUCTIONS = """\
You judge whether an answer is to the point. Whether it is true, complete or polite is not your concern: a
wrong answer to the question asked is relevant, a true statement about something else is not."""

STATEMENTS = """\
Take the answer below apart into statements: the smallest pieces that each say, ask, offer or order one
thing and can be understood alone. Put names in the place of pronouns, keep numbers and names exactly, and
keep the answer's language. A short answer such as a single name or number is one statement. Leave out pure
greetings and closing phrases, unless there is nothing else.

The answer:
$output"""

RELEVANCE = """\
Below are what a user said and the statements of the answer. Decide for each statement whether it serves
what the user wanted.

yes: it answers the user, or some part of what was asked; it gives background or a step needed for that; it
asks back for something needed; or it says that the wish cannot be met, and why.
unsure: it is near the subject, but it is doubtful whether this user is served by it.
no: it is about something else, repeats what was said, or is empty talk.

Give one result for each statement, in the order of the statements, with the reason in one sentence.

The user said:
$input

The statements:
$statements"""

REASON = """\
An answer was judged for relevance, statement by statement. Its score is $score on a scale from 0, where
nothing is to the point, to $scale, where everything is. Explain in two or three sentences why it is not
higher and why it is not lower; name the statements that decide. Write in the language of the answer.

The user said:
$input

The answer:
$output

The results:
$results"""


class StatementsReply(BaseModel):
    """What an answer is made of."""

    statements: list[str]


class StatementVerdict(BaseModel):
    """Whether one statement is to the point."""

    result: YesNoUnsure
    reason: str = ""


class RelevanceReply(BaseModel):
    """One result for each statement."""

    results: list[StatementVerdict]


def answer_relevancy(
    model: Judge | str,
    *,
    uncertainty_weight: float = 0.3,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "answer_relevancy",
) -> StepScorer[StatementsReply, RelevanceReply]:
    """The share of an answer's statements that serve what the user asked.

    Range: 0..scale, higher is better.
    Formula: (yes + uncertainty_weight * unsure) / statements * scale, rounded to two decimals (Mastra
    evals, answer relevancy scorer).
    Needs: the user's words of this turn and the final answer.
    Not scored: `input_not_recorded`, `output_not_recorded` and their `_empty` and `_captured_off` forms;
    `no_statements` when the answer says nothing.
    Cost: three judge calls (statements, results, reason), two without `explain`.

    Args:
        model: a judge, or a model's name for LiteLLM.
        uncertainty_weight: what a statement of doubtful relevance is worth, 0..1.
        scale: the score of an answer that is all to the point.
        explain: whether to ask for a reason.
        id: the scorer's name.

    Raises:
        ConfigError: `scale` or `uncertainty_weight` is out of its range, or the judge cannot be used.
    """
    if not 0.0 <= uncertainty_weight <= 1.0 or math.isnan(uncertainty_weight):
        raise ConfigError(f"{id}.uncertainty_weight", f"must lie within 0..1, not {uncertainty_weight}")

    def score(params: Params[StatementsReply, RelevanceReply]) -> float:
        results = [r.result for r in params.results.analyze.results]
        return round_half_up(mean_worth(results, yes=1.0, unsure=uncertainty_weight) * scale)

    scorer = (
        step_scorer(id, judge=model, instructions=INSTRUCTIONS, scale=scale, inline=True)
        .preprocess(PromptStep(prompt=STATEMENTS, schema=StatementsReply))
        .analyze(
            PromptStep(
                prompt=RELEVANCE,
                schema=RelevanceReply,
                data=lambda params: {"statements": _statements(params) or _NOTHING_SAID},
                check=one_verdict_each(lambda reply: reply.results, _statements),
            )
        )
        .generate_score(score)
    )
    reason = PromptStep(
        prompt=REASON, schema=str, data=lambda params: {"scale": scale, "results": _lines(params)}
    )
    return scorer.generate_reason(reason) if explain else scorer


_NOTHING_SAID = NotScored(reason="no_statements", explanation="the answer says nothing that could be judged")


def _statements(params: Params[StatementsReply, RelevanceReply]) -> list[str]:
    return params.results.preprocess.statements


def _lines(params: Params[StatementsReply, RelevanceReply]) -> list[str]:
    pairs = zip(_statements(params), params.results.analyze.results, strict=True)
    return [f"{r.result}: {statement} ({r.reason})" for statement, r in pairs]
