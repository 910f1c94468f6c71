"""Relevance of the retrieved context, and its use in the answer."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from otel_evals._internal.context import Params, Resolver
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.scorers import common
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer

INSTRUCTIONS = """\
You judge what a retrieval system brought for a user's question, and what the assistant made of it. You do
not judge whether the answer is right."""

ASSESSMENT = """\
Judge each piece of context below, and what is missing among them.

For each piece, its number as context_index, starting at 0, and how relevant it is to what the user wants:
high: it answers the question or an essential part of it.
medium: it helps to answer.
low: it is near the subject and of little help.
none: it is about something else.
Also whether the answer used it (was_used), in whatever words, with the reason in one sentence.

Then list as missing_context what would have been needed to answer the user and stands in no piece: one item
for each piece of information, an empty list if nothing is missing.

The user said:
$input

The answer:
$output

The pieces:
$context"""

REASON = """\
Retrieved context was judged for its relevance. Its score is $score on a scale from 0 to $scale. Pieces
count by their relevance; highly relevant pieces that the answer did not use, and information that is
missing, take points away. Explain in two or three sentences why it is not higher and not lower. Write in
the language of the answer.

The user said:
$input

The answer:
$output

The assessment of the pieces, in their order:
$pieces

Missing:
$missing"""

WORTH = {"high": 1.0, "medium": 0.7, "low": 0.3, "none": 0.0}


class PieceRelevance(BaseModel):
    context_index: int
    relevance_level: common.Level
    was_used: bool
    reasoning: str = ""


class Assessment(BaseModel):
    evaluations: list[PieceRelevance]
    missing_context: list[str] = []


def context_relevance(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    unused_penalty: float = 0.1,
    missing_penalty: float = 0.15,
    max_missing_penalty: float = 0.5,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "context_relevance",
) -> StepScorer[None, Assessment]:
    """Relevance of the retrieved pieces to the user's question, reduced by unused and missing information.

    Range: 0..scale, higher is better.
    Formula: max(0, mean worth of the pieces (high 1, medium 0.7, low 0.3, none 0) - unused highly relevant
    pieces * unused_penalty - min(missing * missing_penalty, max_missing_penalty)) * scale, rounded to two
    decimals (Mastra evals, context relevance scorer).
    Needs: the user's words, the final answer, and pieces from `get_context` or `context`, by default the
    run's retrieved documents.
    Not scored: `no_context`; input or output not recorded.
    Cost: two judge calls (assessment, reason), one without `explain`.

    Args:
        unused_penalty: subtracted for each highly relevant piece that the answer did not use.
        missing_penalty: subtracted for each missing piece of information.
        max_missing_penalty: maximum subtracted for missing information.

    Raises:
        ConfigError: an option is out of range, `context` is empty, or the judge cannot be used.
    """
    common.check_range(f"{id}.unused_penalty", unused_penalty)
    common.check_range(f"{id}.missing_penalty", missing_penalty)
    common.check_range(f"{id}.max_missing_penalty", max_missing_penalty)

    def score(params: Params[None, Assessment]) -> float:
        found = params.results.analyze
        base = common.mean_worth([e.relevance_level for e in found.evaluations], **WORTH)
        unused = sum(e.relevance_level == "high" and not e.was_used for e in found.evaluations)
        missing = min(len(found.missing_context) * missing_penalty, max_missing_penalty)
        return common.round_half_up(max(0.0, base - unused * unused_penalty - missing) * scale)

    scorer = (
        common.judge_scorer(
            id, model, INSTRUCTIONS, get_context=common.context_source(id, get_context, context), scale=scale
        )
        .analyze(
            PromptStep(
                prompt=ASSESSMENT,
                schema=Assessment,
                check=common.one_verdict_each(
                    lambda reply: reply.evaluations, common.context_pieces, at_least=True
                ),
            )
        )
        .generate_score(score)
    )
    return common.with_reason(scorer, REASON, explain, _found)


def _found(params: Params[None, Assessment]) -> dict[str, list[str]]:
    found = params.results.analyze
    pieces = [
        f"{e.relevance_level}, {'used' if e.was_used else 'not used'} ({e.reasoning})"
        for e in found.evaluations
    ]
    return {"pieces": pieces, "missing": found.missing_context}
