"""Evaluators of other libraries as scorers. Each needs its library, imported on first use."""

from __future__ import annotations

from otel_evals._internal.scorers.adapters import deepeval_metric, pydantic_evaluator

__all__ = [
    "deepeval_metric",
    "pydantic_evaluator",
]
