"""The share of an answer's claims that the reference material does not support."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from otel_evals._internal.context import Resolver, combine, documents, static, tool_results
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import Direction
from otel_evals._internal.scorers.common import Claims, YesNo, judge_scorer, score_items
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer

INSTRUCTIONS = """\
You check statements against reference material, as a fact checker would. You rely on nothing but the
material: what you know about the world yourself does not count, neither for a statement nor against it."""

CLAIMS = """\
Take the answer below apart into the claims it makes.

A claim is one fact that could be true or false by itself: an event, a property, a number, a date, a name, a
relation, a promise of what was or will be done. Split sentences that hold several. Write each claim so that
it can be understood alone, with names instead of pronouns, and keep every number, unit, date and name
exactly as it stands. Keep how sure the answer is ("may", "about"). Keep the answer's language. Leave out
greetings, questions, offers of help and opinions. If nothing is left, give an empty list.

The answer:
$output"""

FINDINGS = """\
Below are claims that an answer made, and the reference material it had to rest on. Decide for each claim
whether it is hallucinated.

yes: the material contradicts it, or the material does not say it and it does not follow from what it says. A
number, date or name that differs from the material is a contradiction. A claim that is more certain or more
exact than the material is hallucinated too.
no: the material says it, in these or other words, in this or another language, or it follows from the
material by plain reasoning, such as adding up.

Give one verdict for each claim, in the order of the claims. Repeat the claim as the statement, and name as
the reason, in one sentence, what in the material decides.

The claims:
$claims

The reference material:
$context"""

REASON = """\
An answer was checked against reference material. Its hallucination score is $score on a scale from 0, where
every claim is backed by the material, to $scale, where none is. Explain in two or three sentences why it is
not lower and why it is not higher. Name the claims that decide, and what the material says instead. Write
in the language of the answer.

The answer:
$output

The verdicts (yes: hallucinated):
$verdicts

The reference material:
$context"""


class HallucinationVerdict(BaseModel):
    statement: str
    verdict: YesNo
    reason: str = ""


class HallucinationReply(BaseModel):
    verdicts: list[HallucinationVerdict]


def hallucination(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    without_context: bool = False,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "hallucination",
) -> StepScorer[Claims, HallucinationReply]:
    """The share of an answer's claims that the reference material contradicts or does not support.

    Range: 0..scale, lower is better.
    Formula: hallucinated claims / claims * scale, rounded to two decimals (Mastra evals, hallucination
    scorer).
    Needs: the final answer; reference material from `get_context` or `context`, by default the results of
    the run's tools and retrievers.
    Not scored: `output_not_recorded`, `output_empty`, `output_captured_off`; `no_context` if there is no
    material, unless `without_context`; `no_claims` if the answer claims nothing.
    Cost: three judge calls (claims, findings, reason), two without `explain`.

    Args:
        without_context: judge even if there is no material; every claim then counts as hallucinated.

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
        direction=Direction.LOWER,
        scale=scale,
    )
    return score_items(
        scorer,
        PromptStep(prompt=CLAIMS, schema=Claims),
        FINDINGS,
        HallucinationReply,
        REASON if explain else None,
        nothing="the answer claims nothing that could be checked",
    )
