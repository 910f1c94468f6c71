"""The share of an answer's claims that the context supports."""

from __future__ import annotations

from collections.abc import Sequence

from otel_evals._internal.context import Resolver, combine, documents, static, tool_results
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.scorers.common import Claims, ClaimVerdicts, judge_scorer, score_items
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer

INSTRUCTIONS = """\
You check whether claims are backed by a given context. Only the context counts, not what you know yourself.
A claim may be true and still not be backed."""

CLAIMS = """\
List every claim the answer below makes, whether you believe it or not: facts, figures, dates, names,
causes, comparisons, and guesses told as such. One claim per item, understandable alone, with names instead
of pronouns and figures exactly as written, in the language of the answer. Leave out greetings, questions
and offers of help. If nothing is left, give an empty list.

The answer:
$output"""

VERDICTS = """\
Decide for each claim below what the context says about it.

yes: the context says it, in whatever words or language, or it follows directly.
no: the context contradicts it.
unsure: the context neither says nor contradicts it, or only a part of it.

Give one verdict for each claim, in the order of the claims, with the reason in one sentence.

The claims:
$claims

The context:
$context"""

REASON = """\
An answer was checked for faithfulness to its context. Its score is $score on a scale from 0, nothing
backed, to $scale, everything backed. Explain in two or three sentences why it is not higher and not lower.
Name the claims that decide. Write in the language of the answer.

The user said:
$question

The answer:
$output

The verdicts:
$verdicts

The context:
$context"""


def faithfulness(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    without_context: bool = False,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "faithfulness",
) -> StepScorer[Claims, ClaimVerdicts]:
    """The share of an answer's claims that the context supports.

    Range: 0..scale, higher is better.
    Formula: supported claims / claims * scale, rounded to two decimals (Mastra evals, faithfulness scorer).
    Needs: the final answer; context from `get_context` or `context`, by default the results of the run's
    tools and retrievers.
    Not scored: `output_not_recorded`, `output_empty`, `output_captured_off`; `no_context` if there is none,
    unless `without_context`; `no_claims` if the answer claims nothing.
    Cost: three judge calls (claims, verdicts, reason), two without `explain`.

    Raises:
        ConfigError: `scale` is not positive, or the judge cannot be used.
    """
    fixed = static(*context) if context is not None else combine(tool_results(), documents())
    scorer = judge_scorer(
        id,
        model,
        INSTRUCTIONS,
        get_context=get_context or fixed,
        without_context=without_context,
        scale=scale,
    )
    return score_items(
        scorer,
        PromptStep(prompt=CLAIMS, schema=Claims),
        VERDICTS,
        ClaimVerdicts,
        REASON if explain else None,
        nothing="the answer claims nothing that could be checked",
    )
