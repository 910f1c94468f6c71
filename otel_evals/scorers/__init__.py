"""The built-in scorers, one file each. Each is a function that takes options and returns a scorer."""

from otel_evals.scorers.answer_relevancy import answer_relevancy
from otel_evals.scorers.grounded_in_tools import grounded_in_tools
from otel_evals.scorers.hallucination import hallucination
from otel_evals.scorers.keyword_coverage import keyword_coverage
from otel_evals.scorers.tool_call_accuracy import tool_call_accuracy

__all__ = [
    "answer_relevancy",
    "grounded_in_tools",
    "hallucination",
    "keyword_coverage",
    "tool_call_accuracy",
]
