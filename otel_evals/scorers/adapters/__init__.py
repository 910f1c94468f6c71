"""Other libraries' evaluators as scorers. Each needs its library; none is imported before it is used."""

from __future__ import annotations

from otel_evals.scorers.adapters.deepeval import deepeval_metric
from otel_evals.scorers.adapters.pydantic_evals import pydantic_evaluator

__all__ = ["deepeval_metric", "pydantic_evaluator"]
