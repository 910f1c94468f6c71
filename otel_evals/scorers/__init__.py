"""The built-in scorers, one file each. Each is a function that takes options and returns a scorer."""

from otel_evals.scorers.answer_relevancy import answer_relevancy
from otel_evals.scorers.grounded_in_tools import grounded_in_tools
from otel_evals.scorers.hallucination import hallucination

__all__ = ["answer_relevancy", "grounded_in_tools", "hallucination"]
