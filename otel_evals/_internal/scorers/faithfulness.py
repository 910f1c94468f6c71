"""How much of what an answer claims the context supports."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel

from otel_evals._internal.context import Params, Resolver, combine, documents, static, tool_results
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored
from otel_evals._internal.scorers.common import mean_worth, round_half_up, with_reason
from otel_evals._internal.scorers.replies import YesNoUnsure, one_verdict_each
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.steps import StepScorer, step_scorer

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


class AnswerClaims(BaseModel):
    """What an answer claims."""

    claims: list[str]


class FaithfulnessVerdict(BaseModel):
    """Whether the context backs one claim."""

    verdict: YesNoUnsure
    reason: str = ""


class FaithfulnessReply(BaseModel):
    """One verdict for each claim."""

    verdicts: list[FaithfulnessVerdict]


def faithfulness(
    model: Judge | str,
    *,
    get_context: Resolver | None = None,
    context: Sequence[str] | None = None,
    without_context: bool = False,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "faithfulness",
) -> StepScorer[AnswerClaims, FaithfulnessReply]:
    """The share of an answer's claims that the context supports.

    Range: 0..scale, higher is better.
    Formula: supported claims / claims * scale, rounded to two decimals (Mastra evals, faithfulness scorer).
    Needs: the final answer; context from `get_context`, else `context`, else what the run's tools returned
    and its retrievers brought.
    Not scored: `output_not_recorded`, `output_empty`, `output_captured_off`; `no_context` when there is
    none, unless `without_context`; `no_claims` when the answer claims nothing.
    Cost: three judge calls (claims, verdicts, reason), two without `explain`.

    Args:
        model: a judge, or a model's name for LiteLLM.
        get_context: resolver of the context; called for the verdicts and again for the reason.
        context: the context itself, the same for every run.
        without_context: judge even where there is no context.
        scale: the score of an answer that is all supported.
        explain: whether to ask for a reason.
        id: the scorer's name.

    Raises:
        ConfigError: `scale` is not positive, or the judge cannot be used.
    """
    fixed = static(*context) if context is not None else combine(tool_results(), documents())
    scorer = (
        step_scorer(
            id,
            judge=model,
            instructions=INSTRUCTIONS,
            get_context=get_context or fixed,
            without_context=without_context,
            scale=scale,
            inline=True,
        )
        .preprocess(PromptStep(prompt=CLAIMS, schema=AnswerClaims))
        .analyze(
            PromptStep(
                prompt=VERDICTS,
                schema=FaithfulnessReply,
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
    return with_reason(
        scorer,
        REASON,
        explain,
        lambda params: {"verdicts": _lines(params), "question": params.run.input or ""},
    )


_NO_CLAIMS = NotScored(reason="no_claims", explanation="the answer claims nothing that could be checked")


def _claims(params: Params[AnswerClaims, FaithfulnessReply]) -> list[str]:
    return params.results.preprocess.claims


def _lines(params: Params[AnswerClaims, FaithfulnessReply]) -> list[str]:
    pairs = zip(_claims(params), params.results.analyze.verdicts, strict=True)
    return [f"{v.verdict}: {claim} ({v.reason})" for claim, v in pairs]
