"""Accuracy and coverage of a summary."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel

from otel_evals._internal.context import Params
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored, Run
from otel_evals._internal.scorers.common import judge_scorer, one_verdict_each, round_half_up, with_reason
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.scorer import missing
from otel_evals._internal.scoring.steps import StepScorer
from otel_evals.errors import ConfigError

INSTRUCTIONS = """\
You examine summaries in two respects: whether what they say stands in the source, and whether they hold
what matters in it. Style and length do not count."""

READING = """\
Read the source and the summary below and do two things.

1. alignment: list the claims the summary makes, one fact each, and whether the source supports each. A
claim that the source contradicts or does not mention is not supported. Give the reason in one sentence.
2. questions: write up to $max_questions questions about what matters most in the source, each of which the
source answers with yes, and which a good summary would let a reader answer. Do not look at the summary for
this.

The source:
$source

The summary:
$output"""

COVERAGE = """\
Decide for each question below whether the text alone lets a reader answer it with yes. Give one result for
each question, in their order: the question, whether it is answered, and the reason in one sentence.

The questions:
$questions

The text:
$output"""

REASON = """\
A summary was judged. Its score is $score on a scale from 0 to $scale: the lower of the share of its claims
that the source supports and the share of the source's main points that it holds. Explain in two or three
sentences what is not supported and what is missing. Write in the language of the summary.

The source:
$source

The summary:
$output

The claims:
$claims

The main points:
$points"""


class SummaryClaim(BaseModel):
    claim: str
    supported: bool
    reason: str = ""


class SummaryReply(BaseModel):
    alignment: list[SummaryClaim]
    questions: list[str]


class CoveredQuestion(BaseModel):
    question: str
    answered: bool
    reason: str = ""


class CoverageReply(BaseModel):
    coverage: list[CoveredQuestion]


def summarization(
    model: Judge | str,
    *,
    source: str | Callable[[Run], str | None] | None = None,
    max_questions: int = 10,
    scale: float = 1.0,
    explain: bool = True,
    id: str = "summarization",
) -> StepScorer[SummaryReply, CoverageReply]:
    """The lower of a summary's accuracy and its coverage of the source.

    Range: 0..scale, higher is better.
    Formula: min(supported claims / claims, answered questions / questions) * scale, rounded to two decimals
    (Mastra evals, summarization scorer). The judge that answers the questions does not see the source.
    Needs: the final answer, which is the summary, and its source.
    Not scored: `no_claims` or `no_questions` if there is nothing to compare; input or output not recorded.
    Cost: three judge calls (reading, coverage, reason), two without `explain`.

    Args:
        source: a text, or a function of the run; by default the user's words of this turn.
        max_questions: maximum number of main points.

    Raises:
        ConfigError: `max_questions` or `scale` is out of range, or the judge cannot be used.
    """
    if max_questions < 1:
        raise ConfigError(f"{id}.max_questions", f"must be at least 1, not {max_questions}")

    def questions(params: Params[SummaryReply, CoverageReply]) -> list[str]:
        return params.results.preprocess.questions[:max_questions]

    def original(params: Params[SummaryReply, CoverageReply]) -> str | NotScored:
        found = source(params.run) if callable(source) else source
        if found:
            return found
        return missing(params.run, "input") or params.run.input or ""

    def asked(params: Params[SummaryReply, CoverageReply]) -> list[str] | NotScored:
        if not params.results.preprocess.alignment:
            return NotScored(reason="no_claims", explanation="the summary claims nothing")
        return questions(params) or NotScored(
            reason="no_questions", explanation="the source has no main point"
        )

    def score(params: Params[SummaryReply, CoverageReply]) -> float:
        claims, answers = params.results.preprocess.alignment, params.results.analyze.coverage
        supported = sum(c.supported for c in claims) / len(claims)
        answered = sum(a.answered for a in answers) / len(answers)
        return round_half_up(min(supported, answered) * scale)

    scorer = (
        judge_scorer(id, model, INSTRUCTIONS, scale=scale)
        .preprocess(
            PromptStep(
                prompt=READING,
                schema=SummaryReply,
                data=lambda params: {"source": original(params), "max_questions": max_questions},
            )
        )
        .analyze(
            PromptStep(
                prompt=COVERAGE,
                schema=CoverageReply,
                data=lambda params: {"questions": asked(params)},
                check=one_verdict_each(lambda reply: reply.coverage, questions),
            )
        )
        .generate_score(score)
    )
    return with_reason(scorer, REASON, explain, lambda params: {"source": original(params), **_found(params)})


def _found(params: Params[SummaryReply, CoverageReply]) -> dict[str, list[str]]:
    claims, answers = params.results.preprocess.alignment, params.results.analyze.coverage
    return {
        "claims": [
            f"{'supported' if c.supported else 'not supported'}: {c.claim} ({c.reason})" for c in claims
        ],
        "points": [f"{'held' if a.answered else 'missing'}: {a.question} ({a.reason})" for a in answers],
    }
