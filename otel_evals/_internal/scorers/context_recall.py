"""How much of the expected answer the retrieved context could have given."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from otel_evals._internal.context import Params, Resolver
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored
from otel_evals._internal.scorers.common import context_source, mean_worth, round_half_up, with_reason
from otel_evals._internal.scorers.replies import YesNoUnsure, one_verdict_each
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer, step_scorer

INSTRUCTIONS = """\
You judge what a retrieval system brought, by what a correct answer would have needed. The answer that was
really given is not your concern, and what you know yourself does not count."""

CLAIMS = """\
Take the expected answer below apart into its claims: one fact each, understandable alone, with figures and
names exactly as written, in its language. If it claims nothing, give an empty list.

The expected answer:
$expected"""

VERDICTS = """\
Decide for each claim of an expected answer whether it could have been found in the context below.

yes: the context says it, in whatever words or language, or it follows directly.
no: it does not.
unsure: it says only a part of it.

Give one verdict for each claim, in the order of the claims, with the reason in one sentence.

The claims:
$claims

The context:
$context"""

REASON = """\
Retrieved context was judged by what the expected answer needs. Its score is $score on a scale from 0,
nothing of it there, to $scale, all of it there. Explain in one to three sentences what was found and what
is missing. Write in the language of the expected answer.

The expected answer:
$expected

The verdicts:
$verdicts

The context:
$context"""


class ExpectedClaims(BaseModel):
    """What the expected answer claims."""

    claims: list[str]


class RecallVerdict(BaseModel):
    """Whether the context holds one claim."""

    verdict: YesNoUnsure
    reason: str = ""


class RecallReply(BaseModel):
    """One verdict for each claim."""

    verdicts: list[RecallVerdict]


def context_recall(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "context_recall",
) -> StepScorer[ExpectedClaims, RecallReply]:
    """The share of the expected answer's claims that stand in the retrieved context.

    Range: 0..scale, higher is better.
    Formula: claims found / claims * scale, rounded to two decimals (Mastra evals, context recall scorer).
    Needs: an expected answer (`run.ground_truth`), and pieces from `get_context`, else `context`, else the
    run's retrieved documents.
    Not scored: `ground_truth_not_recorded` (always so on live traffic), `no_context`, `no_claims`.
    Cost: three judge calls (claims, verdicts, reason), two without `explain`.

    Args:
        model: a judge, or a model's name for LiteLLM.
        get_context: resolver of the pieces.
        context: the pieces themselves, the same for every run.
        scale: the best score.
        explain: whether to ask for a reason.
        id: the scorer's name.

    Raises:
        ConfigError: `scale` is not positive, `context` is empty, or the judge cannot be used.
    """
    scorer = (
        step_scorer(
            id,
            judge=model,
            instructions=INSTRUCTIONS,
            get_context=context_source(id, get_context, context),
            scale=scale,
            inline=True,
        )
        .preprocess(PromptStep(prompt=CLAIMS, schema=ExpectedClaims))
        .analyze(
            PromptStep(
                prompt=VERDICTS,
                schema=RecallReply,
                data=lambda params: {"claims": _claims(params) or _NO_CLAIMS},
                check=one_verdict_each(lambda reply: reply.verdicts, _claims),
            )
        )
        .generate_score(
            lambda params: round_half_up(
                mean_worth([v.verdict for v in params.results.analyze.verdicts], yes=1.0) * scale
            )
        )
    )
    return with_reason(scorer, REASON, explain, lambda params: {"verdicts": _lines(params)})


_NO_CLAIMS = NotScored(reason="no_claims", explanation="the expected answer claims nothing")


def _claims(params: Params[ExpectedClaims, RecallReply]) -> list[str]:
    return params.results.preprocess.claims


def _lines(params: Params[ExpectedClaims, RecallReply]) -> list[str]:
    pairs = zip(_claims(params), params.results.analyze.verdicts, strict=True)
    return [f"{v.verdict}: {claim} ({v.reason})" for claim, v in pairs]
