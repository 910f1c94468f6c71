"""The order of useful and useless pieces of context."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from otel_evals._internal.context import Params, Resolver
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.scorers import common
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer

INSTRUCTIONS = """\
You judge what a retrieval system brought. For each piece you say whether it was of use for the answer. You
do not judge the answer itself."""

VERDICTS = """\
A user asked something, an assistant answered, and the pieces of context below had been retrieved for it.
Decide for each piece whether it was of use.

yes: the piece holds something needed to answer the user, or backs something the answer says.
no: it is about something else, or only near the subject.

Give one verdict for each piece, with its number as context_index, starting at 0, and the reason in one
sentence.

The user said:
$input

The answer:
$output

The pieces, in the order they were retrieved:
$context"""

REASON = """\
The order of retrieved pieces was judged. The score is $score on a scale from 0, nothing useful or all of it
last, to $scale, everything useful first. Explain in one to three sentences why: which pieces were of use,
and where they stood. Write in the language of the answer.

The user said:
$input

The answer:
$output

The verdicts, in the order of the pieces:
$verdicts"""


class PieceVerdict(BaseModel):
    context_index: int
    verdict: common.YesNo
    reason: str = ""


class PrecisionReply(BaseModel):
    verdicts: list[PieceVerdict]


def context_precision(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "context_precision",
) -> StepScorer[None, PrecisionReply]:
    """The average precision of the retrieved pieces: 1 if all useful pieces come before the useless ones.

    Range: 0..scale, higher is better.
    Formula: mean over the useful pieces of (useful pieces so far / position), times scale, rounded to two
    decimals; 0 if none is useful (average precision; Mastra evals, context precision scorer).
    Needs: the user's words, the final answer, and pieces from `get_context` or `context`, by default the
    run's retrieved documents.
    Not scored: `no_context`; input or output not recorded.
    Cost: two judge calls (verdicts, reason), one without `explain`.

    Raises:
        ConfigError: `scale` is not positive, `context` is empty, or the judge cannot be used.
    """
    scorer = (
        common.judge_scorer(
            id, model, INSTRUCTIONS, get_context=common.context_source(id, get_context, context), scale=scale
        )
        .analyze(
            PromptStep(
                prompt=VERDICTS,
                schema=PrecisionReply,
                check=common.one_verdict_each(
                    lambda reply: reply.verdicts, common.context_pieces, at_least=True
                ),
            )
        )
        .generate_score(lambda params: common.round_half_up(average_precision(_useful(params)) * scale))
    )
    return common.with_reason(scorer, REASON, explain, lambda params: {"verdicts": _lines(params)})


def average_precision(useful: Sequence[bool]) -> float:
    """Return the mean precision at each useful position; 0 if there is none."""
    at = [sum(useful[: n + 1]) / (n + 1) for n, it in enumerate(useful) if it]
    return sum(at) / len(at) if at else 0.0


def _ordered(params: Params[None, PrecisionReply]) -> list[PieceVerdict]:
    return sorted(params.results.analyze.verdicts, key=lambda v: v.context_index)


def _useful(params: Params[None, PrecisionReply]) -> list[bool]:
    return [v.verdict == "yes" for v in _ordered(params)]


def _lines(params: Params[None, PrecisionReply]) -> list[str]:
    return [f"{v.verdict} ({v.reason})" for v in _ordered(params)]
