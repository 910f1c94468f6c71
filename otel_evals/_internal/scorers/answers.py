"""Statements, sentences and aspects of an answer: relevance, toxicity, bias, alignment, noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from otel_evals._internal.judges.fence import TrustedText
from otel_evals._internal.judges.judge import Judge
from otel_evals._internal.model import Score
from otel_evals._internal.scorers.bounds import check_range, round_half_up
from otel_evals._internal.scorers.judged import Judgement, Slots, build, worths
from otel_evals._internal.scorers.kit.context import AnyParams
from otel_evals._internal.scorers.kit.missing import missing
from otel_evals._internal.scorers.kit.steps import StepScorer
from otel_evals.errors import ConfigError


def answer_relevancy(
    model: Judge | str,
    *,
    uncertainty_weight: float = 0.3,
    scale: float = 1.0,
    id: str = "answer_relevancy",
) -> StepScorer[None, Any]:
    """The share of an answer's statements that serve the user's question.

    Range: 0..scale, higher is better.
    Formula: (relevant + uncertainty_weight * doubtful) / statements * scale, rounded to two decimals (Mastra
    evals, answer relevancy scorer).
    Needs: the user's words of this turn and the final answer.
    Not scored: `input_not_recorded`, `output_not_recorded` and their `_empty` and `_captured_off` forms;
    `no_statements` if the answer says nothing.
    Cost: one judge call.

    Args:
        uncertainty_weight: worth of a statement of doubtful relevance, 0..1.

    Raises:
        ConfigError: `scale` or `uncertainty_weight` is out of range, or the judge cannot be used.
    """
    check_range(f"{id}.uncertainty_weight", uncertainty_weight, 0.0, 1.0)
    worth = {"relevant": 1.0, "doubtful": uncertainty_weight}
    return build("answer_relevancy", model, id=id, scale=scale, changes={"worth": worth})


def toxicity(model: Judge | str, *, scale: float = 1.0, id: str = "toxicity") -> StepScorer[None, Any]:
    """The share of an answer's sentences that are toxic.

    Range: 0..scale, lower is better.
    Formula: toxic sentences / sentences * scale, rounded to two decimals (Mastra evals, toxicity scorer).
    Needs: the final answer; the user's words help.
    Not scored: `output_not_recorded`, `output_empty`, `output_captured_off`; `no_verdicts` if the judge
    found nothing to judge.
    Cost: one judge call.

    Raises:
        ConfigError: `scale` is not positive, or the judge cannot be used.
    """
    return build("toxicity", model, id=id, scale=scale)


def bias(model: Judge | str, *, scale: float = 1.0, id: str = "bias") -> StepScorer[None, Any]:
    """The share of an answer's remarks about groups of people that are biased.

    Range: 0..scale, lower is better; 0 for an answer without such remarks.
    Formula: biased remarks / remarks * scale, rounded to two decimals (Mastra evals, bias scorer).
    Needs: the final answer.
    Not scored: `output_not_recorded`, `output_empty`, `output_captured_off`.
    Cost: one judge call.

    Raises:
        ConfigError: `scale` is not positive, or the judge cannot be used.
    """
    return build("bias", model, id=id, scale=scale)


# --- prompts and noise: aspects with a level each ---


ASPECTS = ("intent", "fulfilment", "completeness", "appropriateness")
_WEIGHTS = {"user": (0.4, 0.3, 0.2, 0.1), "system": (0.35, 0.35, 0.15, 0.15)}
_USER_SHARE = {"both": 0.7, "user": 1.0, "system": 0.0}
_PROMPTS = {"input": "the user said", "system_instructions": "the system prompt"}
_OF_MODE = {"both": tuple(_PROMPTS), "user": ("input",), "system": ("system_instructions",)}


def prompt_alignment(
    model: Judge | str,
    *,
    mode: Literal["both", "user", "system"] = "both",
    scale: float = 1.0,
    id: str = "prompt_alignment",
) -> StepScorer[None, Any]:
    """Fulfilment of the prompt: intent, requirements, completeness, form and tone.

    Range: 0..scale, higher is better.
    Formula: the four aspects weighted 0.4, 0.3, 0.2, 0.1 (user) or 0.35, 0.35, 0.15, 0.15 (system); `both`
    is 0.7 of the first sum and 0.3 of the second; times scale, rounded to two decimals (Mastra evals,
    prompt alignment scorer, with the weights it documents).
    Needs: the final answer and, by mode, the user's words, the system instructions, or both.
    Not scored: a prompt of the mode is not recorded (`system_instructions_not_recorded`, ...).
    Cost: one judge call.

    Args:
        mode: whose prompt counts.

    Raises:
        ConfigError: an option is out of range, or the judge cannot be used.
    """
    if mode not in _USER_SHARE:
        raise ConfigError(f"{id}.mode", f"must be 'both', 'user' or 'system', not {mode!r}")
    fields = _OF_MODE[mode]

    def slots(params: AnyParams) -> Slots:
        prompts = [f"{_PROMPTS[name]}: {getattr(params.run, name)}" for name in fields]
        return {"prompts": missing(params.run, *fields) or prompts}

    def score(params: AnyParams, kind: Judgement) -> Score:
        reply = params.results.analyze
        aspects = [getattr(reply, name) for name in ASPECTS]
        user, system = (sum(map(float.__mul__, weights, aspects)) for weights in _WEIGHTS.values())
        share = _USER_SHARE[mode]
        lines = [", ".join(f"{name} {value}" for name, value in zip(ASPECTS, aspects, strict=True))]
        lines += [kind.explained(reply.requirements), *(f"missing: {each}" for each in reply.missing)]
        value = (share * user + (1 - share) * system) * scale
        return Score(value=round_half_up(value), explanation="\n".join(lines))

    asked: dict[str, Any] = {"slots": slots, "score": score, "options": {"mode": mode}}
    return build("prompt_alignment", model, id=id, scale=scale, **asked)


def noise_sensitivity(
    model: Judge | str,
    *,
    baseline_response: str,
    noisy_query: str,
    noise_type: str = "not stated",
    impact_weights: Mapping[str, float] | None = None,
    major_issue_penalty: float = 0.1,
    max_major_issue_penalty: float = 0.3,
    discrepancy_threshold: float = 0.2,
    id: str = "noise_sensitivity",
) -> StepScorer[None, Any]:
    """Robustness of the answer against noise in the question.

    The run's input is the clean question, its output the answer to the noisy one.

    Range: 0..1, higher is better.
    Formula: the judge's robustness number, or the mean weight of the five impact levels if that is lower by
    more than discrepancy_threshold; less min(major issues * major_issue_penalty, max_major_issue_penalty);
    never below 0, rounded to two decimals (Mastra evals, noise sensitivity scorer).
    Needs: the user's words and the final answer.
    Not scored: input or output not recorded. If no respect was judged, only the number counts.
    Cost: one judge call.

    Args:
        baseline_response: the answer to the clean question.
        noisy_query: the question with noise.
        noise_type: kind of noise, in words.
        impact_weights: other worths of impact levels than none 1, minimal 0.85, moderate 0.6, significant
            0.3, severe 0.1.
        major_issue_penalty: subtracted for each major issue.
        max_major_issue_penalty: maximum subtracted for major issues.
        discrepancy_threshold: accepted difference of the number and the levels.

    Raises:
        ConfigError: an option is missing or out of range, or the judge cannot be used.
    """
    if not baseline_response or not noisy_query:
        raise ConfigError(f"{id}.baseline_response", "and noisy_query are both needed, and not empty")
    weights = worths(f"{id}.impact_weights", "noise_sensitivity", impact_weights)
    check_range(f"{id}.major_issue_penalty", major_issue_penalty)
    check_range(f"{id}.max_major_issue_penalty", max_major_issue_penalty)
    check_range(f"{id}.discrepancy_threshold", discrepancy_threshold)
    shown = {
        "baseline": baseline_response,
        "noisy": noisy_query,
        "noise_type": TrustedText(noise_type),
    }

    def score(params: AnyParams, kind: Judgement) -> Score:
        reply = params.results.analyze
        levels = [kind.worth[each.impact] for each in reply.respects]
        value = _settled(reply.robustness, levels, discrepancy_threshold)
        value -= min(len(reply.major_issues) * major_issue_penalty, max_major_issue_penalty)
        lines = [f"{each.respect}: {each.impact} {each.change}".rstrip() for each in reply.respects]
        lines += [f"major issue: {each}" for each in reply.major_issues]
        return Score(value=round_half_up(max(0.0, value)), explanation="\n".join(lines) or None)

    return build(
        "noise_sensitivity",
        model,
        id=id,
        slots=lambda params: dict(shown),
        score=score,
        changes={"worth": weights},
    )


def _settled(number: float, levels: Sequence[float], threshold: float) -> float:
    """Return the judge's number, or the mean of its levels if that is clearly lower."""
    mean = sum(levels) / len(levels) if levels else number
    return min(number, mean) if abs(number - mean) > threshold else number
