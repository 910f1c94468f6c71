"""The share of an answer that is relevant to the question."""

from __future__ import annotations

from pydantic import BaseModel

from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.scorers.common import YesNoUnsure, check_range, judge_scorer, score_items
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer

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
    statements: list[str]


class StatementVerdict(BaseModel):
    result: YesNoUnsure
    reason: str = ""


class RelevanceReply(BaseModel):
    results: list[StatementVerdict]


def answer_relevancy(
    model: Judge | str,
    *,
    uncertainty_weight: float = 0.3,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "answer_relevancy",
) -> StepScorer[StatementsReply, RelevanceReply]:
    """The share of an answer's statements that serve the user's question.

    Range: 0..scale, higher is better.
    Formula: (yes + uncertainty_weight * unsure) / statements * scale, rounded to two decimals (Mastra
    evals, answer relevancy scorer).
    Needs: the user's words of this turn and the final answer.
    Not scored: `input_not_recorded`, `output_not_recorded` and their `_empty` and `_captured_off` forms;
    `no_statements` if the answer says nothing.
    Cost: three judge calls (statements, results, reason), two without `explain`.

    Args:
        uncertainty_weight: worth of a statement of doubtful relevance, 0..1.

    Raises:
        ConfigError: `scale` or `uncertainty_weight` is out of range, or the judge cannot be used.
    """
    check_range(f"{id}.uncertainty_weight", uncertainty_weight, 0.0, 1.0)
    return score_items(
        judge_scorer(id, model, INSTRUCTIONS, scale=scale),
        PromptStep(prompt=STATEMENTS, schema=StatementsReply),
        RELEVANCE,
        RelevanceReply,
        REASON if explain else None,
        names=("statements", "results", "result"),
        nothing="the answer says nothing that could be judged",
        unsure=uncertainty_weight,
    )
