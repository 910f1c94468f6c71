"""How well an answer follows the user's and the system prompt."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from otel_evals._internal.context import Params
from otel_evals._internal.judges.fence import Slot, TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import NotScored
from otel_evals._internal.scorers.common import Level, judge_scorer, round_half_up, with_reason
from otel_evals._internal.scoring.prompt import PromptStep
from otel_evals._internal.scoring.scorer import missing
from otel_evals._internal.scoring.steps import StepScorer
from otel_evals.errors import ConfigError

INSTRUCTIONS = """\
You judge how well an answer keeps to what it was asked for. Whether it is true is not your concern, and
what was not asked for cannot be missing."""

ALIGNMENT = """\
Judge the answer below against $whose. Judge four aspects, each with $how:

- intent_alignment: does it serve the main intent (primary_intent), and is that addressed (is_addressed)?
- requirements_fulfillment: name each single requirement, said or clearly implied (form, length, language,
what to do and not to do), and whether it is_fulfilled; then judge them together.
- completeness: is everything there that was asked for? Name the missing_elements.
- response_appropriateness: are form (format_alignment) and tone (tone_alignment) as wanted?

Give a short reasoning with each aspect, and an overall_assessment in one sentence.

What was asked:
$prompts

The answer:
$output"""

AS_NUMBERS = "a score from 0, not at all, to 1, fully"
AS_LEVELS = "a score that is one of high (fully), medium (mostly), low (hardly) and none (not at all)"

REASON = """\
An answer was judged by how well it keeps to $whose. Its score is $score on a scale from 0 to $scale.
Explain in two or three sentences what it fulfils and what it does not. Write in the language of the answer.

What was asked:
$prompts

The answer:
$output

The judgement:
$judgement"""

WHOSE = {
    "user": "what the user asked for",
    "system": "what the system prompt asks for",
    "both": "what the user and the system prompt asked for",
}
ASPECTS = ("intent_alignment", "requirements_fulfillment", "completeness", "response_appropriateness")
USER_WEIGHTS = (0.4, 0.3, 0.2, 0.1)
SYSTEM_WEIGHTS = (0.35, 0.35, 0.15, 0.15)
USER_SHARE = 0.7
WORTH = {"high": 1.0, "medium": 0.7, "low": 0.3, "none": 0.0}


Number = Annotated[float, Field(ge=0, le=1)]


class PromptRequirement(BaseModel):
    requirement: str
    is_fulfilled: bool
    reasoning: str = ""


class Alignment(BaseModel):
    class Intent(BaseModel):
        score: Number
        primary_intent: str = ""
        is_addressed: bool = True
        reasoning: str = ""

    class Requirements(BaseModel):
        requirements: list[PromptRequirement] = []
        overall_score: Number

    class Completeness(BaseModel):
        score: Number
        missing_elements: list[str] = []
        reasoning: str = ""

    class Appropriateness(BaseModel):
        score: Number
        format_alignment: bool = True
        tone_alignment: bool = True
        reasoning: str = ""

    intent_alignment: Intent
    requirements_fulfillment: Requirements
    completeness: Completeness
    response_appropriateness: Appropriateness
    overall_assessment: str = ""


class AlignmentLevels(BaseModel):
    requirements: list[PromptRequirement] = []
    missing_elements: list[str] = []
    intent_alignment: Level
    requirements_fulfillment: Level
    completeness: Level
    response_appropriateness: Level
    overall_assessment: str = ""


Judgement = Alignment | AlignmentLevels


def prompt_alignment(
    model: Judge | str,
    *,
    mode: Literal["both", "user", "system"] = "both",
    form: Literal["number", "verdicts"] = "number",
    scale: float = 1.0,
    explain: bool = True,
    id: str = "prompt_alignment",
) -> StepScorer[None, Any]:
    """Fulfilment of the prompt: intent, requirements, completeness, form and tone.

    Range: 0..scale, higher is better.
    Formula: the four aspects weighted 0.4, 0.3, 0.2, 0.1 (user) or 0.35, 0.35, 0.15, 0.15 (system); `both`
    is 0.7 of the first sum and 0.3 of the second; times scale, rounded to two decimals (Mastra evals,
    prompt alignment scorer, with the weights it documents). With `form="verdicts"` the judge chooses
    levels: high 1, medium 0.7, low 0.3, none 0.
    Needs: the final answer and, by mode, the user's words, the system instructions, or both.
    Not scored: a prompt of the mode is not recorded (`system_instructions_not_recorded`, ...).
    Cost: two judge calls (judgement, reason), one without `explain`.

    Args:
        mode: whose prompt counts.
        form: `number` asks for numbers, `verdicts` for named levels.

    Raises:
        ConfigError: an option is out of range, or the judge cannot be used.
    """
    if mode not in WHOSE:
        raise ConfigError(f"{id}.mode", f"must be 'both', 'user' or 'system', not {mode!r}")
    if form not in ("number", "verdicts"):
        raise ConfigError(f"{id}.form", f"must be 'number' or 'verdicts', not {form!r}")
    user_share = {"both": USER_SHARE, "user": 1.0, "system": 0.0}[mode]

    def score(params: Params[None, Judgement]) -> float:
        aspects = _aspects(params.results.analyze)
        user = sum(w * a for w, a in zip(USER_WEIGHTS, aspects, strict=True))
        system = sum(w * a for w, a in zip(SYSTEM_WEIGHTS, aspects, strict=True))
        return round_half_up((user_share * user + (1 - user_share) * system) * scale)

    def data(params: Params[Any, Any]) -> dict[str, Slot | NotScored]:
        how = AS_NUMBERS if form == "number" else AS_LEVELS
        return {"whose": TrustedText(WHOSE[mode]), "how": TrustedText(how), "prompts": _prompts(params, mode)}

    schema: type[Judgement] = Alignment if form == "number" else AlignmentLevels
    scorer = (
        judge_scorer(id, model, INSTRUCTIONS, scale=scale)
        .analyze(PromptStep(prompt=ALIGNMENT, schema=schema, data=data))
        .generate_score(score)
    )
    return with_reason(
        scorer,
        REASON,
        explain,
        lambda params: {**data(params), "judgement": params.results.analyze.model_dump_json()},
    )


def _aspects(found: Judgement) -> list[float]:
    """Return intent, requirements, completeness and appropriateness, each 0..1."""
    if isinstance(found, AlignmentLevels):
        return [WORTH[getattr(found, name)] for name in ASPECTS]
    scores = [getattr(found, name) for name in ASPECTS]
    return [each.overall_score if isinstance(each, Alignment.Requirements) else each.score for each in scores]


def _prompts(params: Params[Any, Any], mode: str) -> Slot | NotScored:
    run = params.run
    needed = {"user": ["input"], "system": ["system_instructions"]}.get(
        mode, ["input", "system_instructions"]
    )
    absent = missing(run, *needed)
    if absent:
        return absent
    titles = {"input": "the user said", "system_instructions": "the system prompt"}
    return [f"{titles[name]}: {getattr(run, name)}" for name in needed]
