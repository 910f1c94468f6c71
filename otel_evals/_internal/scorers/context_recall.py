"""The share of the expected answer that the retrieved context supports."""

from __future__ import annotations

from collections.abc import Sequence

from otel_evals._internal.context import Resolver
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.scorers import common
from otel_evals._internal.scorers.common import Claims, ClaimVerdicts
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer

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


def context_recall(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "context_recall",
) -> StepScorer[Claims, ClaimVerdicts]:
    """The share of the expected answer's claims that the retrieved context supports.

    Range: 0..scale, higher is better.
    Formula: claims found / claims * scale, rounded to two decimals (Mastra evals, context recall scorer).
    Needs: an expected answer (`run.ground_truth`), and pieces from `get_context` or `context`, by default
    the run's retrieved documents.
    Not scored: `ground_truth_not_recorded` (always so on live traffic), `no_context`, `no_claims`.
    Cost: three judge calls (claims, verdicts, reason), two without `explain`.

    Raises:
        ConfigError: `scale` is not positive, `context` is empty, or the judge cannot be used.
    """
    scorer = common.judge_scorer(
        id, model, INSTRUCTIONS, get_context=common.context_source(id, get_context, context), scale=scale
    )
    return common.score_items(
        scorer,
        PromptStep(prompt=CLAIMS, schema=Claims),
        VERDICTS,
        ClaimVerdicts,
        REASON if explain else None,
        nothing="the expected answer claims nothing",
    )
