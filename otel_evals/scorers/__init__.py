"""The built-in scorers, and the kit to write your own.

Each built-in scorer is a function that takes options and returns a `Scorer`. `checks` has small yes-or-no
checks, `adapters` wraps the evaluators of other libraries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_evals._internal.util.lazy import load_names

if TYPE_CHECKING:
    from otel_evals._internal.scorers.agents import failure_step, tool_call_judge, trajectory_judge
    from otel_evals._internal.scorers.answers import (
        answer_relevancy,
        bias,
        noise_sensitivity,
        prompt_alignment,
        toxicity,
    )
    from otel_evals._internal.scorers.compared import (
        completeness,
        content_similarity,
        keyword_coverage,
        textual_difference,
    )
    from otel_evals._internal.scorers.expected import answer_similarity, factuality
    from otel_evals._internal.scorers.grounded_in_tools import grounded_in_tools
    from otel_evals._internal.scorers.grounding import (
        context_recall,
        faithfulness,
        hallucination,
        summarization,
    )
    from otel_evals._internal.scorers.kit.context import Params, Results
    from otel_evals._internal.scorers.kit.facts import ScorerFacts
    from otel_evals._internal.scorers.kit.labels import with_examples
    from otel_evals._internal.scorers.kit.missing import missing
    from otel_evals._internal.scorers.kit.panel import Panel, panel, votes
    from otel_evals._internal.scorers.kit.prompt import PromptStep, ScoreReply
    from otel_evals._internal.scorers.kit.scorer import FunctionScorer, Scorer, scorer, to_score
    from otel_evals._internal.scorers.kit.steps import ReasonParams, StepScorer, step_scorer
    from otel_evals._internal.scorers.output import answered, no_secrets, same_language
    from otel_evals._internal.scorers.own import classifier, multi_turn_judge, rubric
    from otel_evals._internal.scorers.retrieval import context_precision, context_relevance
    from otel_evals._internal.scorers.tone_consistency import tone_consistency
    from otel_evals._internal.scorers.tool_use import (
        repeated_calls,
        tool_call_accuracy,
        tool_error_rate,
        unrecovered_tool_errors,
    )
    from otel_evals._internal.scorers.trajectory import trajectory_accuracy, within_budget
    from otel_evals._internal.scorers.trajectory_quality import trajectory_quality
    from otel_evals._internal.scorers.valid_json import valid_json

__all__ = [
    "FunctionScorer",
    "Panel",
    "Params",
    "PromptStep",
    "ReasonParams",
    "Results",
    "ScoreReply",
    "Scorer",
    "ScorerFacts",
    "StepScorer",
    "answer_relevancy",
    "answer_similarity",
    "answered",
    "bias",
    "classifier",
    "completeness",
    "content_similarity",
    "context_precision",
    "context_recall",
    "context_relevance",
    "factuality",
    "failure_step",
    "faithfulness",
    "grounded_in_tools",
    "hallucination",
    "keyword_coverage",
    "missing",
    "multi_turn_judge",
    "no_secrets",
    "noise_sensitivity",
    "panel",
    "prompt_alignment",
    "repeated_calls",
    "rubric",
    "same_language",
    "scorer",
    "step_scorer",
    "summarization",
    "textual_difference",
    "to_score",
    "tone_consistency",
    "tool_call_accuracy",
    "tool_call_judge",
    "tool_error_rate",
    "toxicity",
    "trajectory_accuracy",
    "trajectory_judge",
    "trajectory_quality",
    "unrecovered_tool_errors",
    "valid_json",
    "votes",
    "with_examples",
    "within_budget",
]

_KIT = {
    "scorers.kit.context": "Params Results",
    "scorers.kit.labels": "with_examples",
    "scorers.kit.panel": "Panel panel votes",
    "scorers.kit.prompt": "PromptStep ScoreReply",
    "scorers.kit.facts": "ScorerFacts",
    "scorers.kit.missing": "missing",
    "scorers.kit.scorer": "FunctionScorer Scorer scorer to_score",
    "scorers.kit.steps": "ReasonParams StepScorer step_scorer",
}
_BUILT_IN = {
    "scorers.agents": "failure_step tool_call_judge trajectory_judge",
    "scorers.answers": "answer_relevancy bias noise_sensitivity prompt_alignment toxicity",
    "scorers.compared": "completeness content_similarity keyword_coverage textual_difference",
    "scorers.expected": "answer_similarity factuality",
    "scorers.grounded_in_tools": "grounded_in_tools",
    "scorers.grounding": "context_recall faithfulness hallucination summarization",
    "scorers.output": "answered no_secrets same_language",
    "scorers.own": "classifier multi_turn_judge rubric",
    "scorers.retrieval": "context_precision context_relevance",
    "scorers.tone_consistency": "tone_consistency",
    "scorers.tool_use": "repeated_calls tool_call_accuracy tool_error_rate unrecovered_tool_errors",
    "scorers.trajectory": "trajectory_accuracy within_budget",
    "scorers.trajectory_quality": "trajectory_quality",
    "scorers.valid_json": "valid_json",
}
"""Entered by `python3 dev.py scorers`."""
_WHERE = {
    name: f"otel_evals._internal.{module}"
    for module, names in (_KIT | _BUILT_IN).items()
    for name in names.split()
}
__getattr__ = load_names(globals(), _WHERE)


def __dir__() -> list[str]:
    return __all__
