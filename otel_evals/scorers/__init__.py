"""The built-in scorers, one file each. Each is a function that takes options and returns a scorer."""

from otel_evals.scorers.answer_relevancy import answer_relevancy
from otel_evals.scorers.answer_similarity import answer_similarity
from otel_evals.scorers.answered import answered
from otel_evals.scorers.bias import bias
from otel_evals.scorers.classifier import classifier
from otel_evals.scorers.completeness import completeness
from otel_evals.scorers.content_similarity import content_similarity
from otel_evals.scorers.context_precision import context_precision
from otel_evals.scorers.context_recall import context_recall
from otel_evals.scorers.context_relevance import context_relevance
from otel_evals.scorers.factuality import factuality
from otel_evals.scorers.faithfulness import faithfulness
from otel_evals.scorers.grounded_in_tools import grounded_in_tools
from otel_evals.scorers.hallucination import hallucination
from otel_evals.scorers.keyword_coverage import keyword_coverage
from otel_evals.scorers.multi_turn_judge import multi_turn_judge
from otel_evals.scorers.no_secrets import no_secrets
from otel_evals.scorers.noise_sensitivity import noise_sensitivity
from otel_evals.scorers.prompt_alignment import prompt_alignment
from otel_evals.scorers.repeated_calls import repeated_calls
from otel_evals.scorers.rubric import rubric
from otel_evals.scorers.same_language import same_language
from otel_evals.scorers.summarization import summarization
from otel_evals.scorers.textual_difference import textual_difference
from otel_evals.scorers.tone_consistency import tone_consistency
from otel_evals.scorers.tool_call_accuracy import tool_call_accuracy
from otel_evals.scorers.tool_call_judge import tool_call_judge
from otel_evals.scorers.tool_errors import tool_error_rate, unrecovered_tool_errors
from otel_evals.scorers.toxicity import toxicity
from otel_evals.scorers.trajectory_accuracy import trajectory_accuracy
from otel_evals.scorers.trajectory_judge import trajectory_judge
from otel_evals.scorers.trajectory_quality import trajectory_quality
from otel_evals.scorers.valid_json import valid_json
from otel_evals.scorers.within_budget import within_budget

__all__ = [
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
    "faithfulness",
    "grounded_in_tools",
    "hallucination",
    "keyword_coverage",
    "multi_turn_judge",
    "no_secrets",
    "noise_sensitivity",
    "prompt_alignment",
    "repeated_calls",
    "rubric",
    "same_language",
    "summarization",
    "textual_difference",
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
    "within_budget",
]
