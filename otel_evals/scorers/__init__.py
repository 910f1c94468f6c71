"""The built-in scorers, one file each. Each is a function that takes options and returns a scorer."""

from otel_evals.scorers.answer_relevancy import answer_relevancy
from otel_evals.scorers.answer_similarity import answer_similarity
from otel_evals.scorers.bias import bias
from otel_evals.scorers.classifier import classifier
from otel_evals.scorers.context_precision import context_precision
from otel_evals.scorers.context_recall import context_recall
from otel_evals.scorers.context_relevance import context_relevance
from otel_evals.scorers.factuality import factuality
from otel_evals.scorers.faithfulness import faithfulness
from otel_evals.scorers.grounded_in_tools import grounded_in_tools
from otel_evals.scorers.hallucination import hallucination
from otel_evals.scorers.keyword_coverage import keyword_coverage
from otel_evals.scorers.multi_turn_judge import multi_turn_judge
from otel_evals.scorers.noise_sensitivity import noise_sensitivity
from otel_evals.scorers.prompt_alignment import prompt_alignment
from otel_evals.scorers.rubric import rubric
from otel_evals.scorers.summarization import summarization
from otel_evals.scorers.tool_call_accuracy import tool_call_accuracy
from otel_evals.scorers.tool_call_judge import tool_call_judge
from otel_evals.scorers.toxicity import toxicity
from otel_evals.scorers.trajectory_judge import trajectory_judge

__all__ = [
    "answer_relevancy",
    "answer_similarity",
    "bias",
    "classifier",
    "context_precision",
    "context_recall",
    "context_relevance",
    "factuality",
    "faithfulness",
    "grounded_in_tools",
    "hallucination",
    "keyword_coverage",
    "multi_turn_judge",
    "noise_sensitivity",
    "prompt_alignment",
    "rubric",
    "summarization",
    "tool_call_accuracy",
    "tool_call_judge",
    "toxicity",
    "trajectory_judge",
]
