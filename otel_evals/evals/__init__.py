"""The same scorers elsewhere: on data sets, in tests, and on stored traces.

from otel_evals.evals import run_evals
from otel_evals.scorers import checks, grounded_in_tools

result = run_evals("questions.jsonl", agent, [grounded_in_tools()], thresholds={"grounded_in_tools": 0.9})
print(result)
"""

from __future__ import annotations

from otel_evals.evals.batch import BatchScorer
from otel_evals.evals.data import Item, read_items
from otel_evals.evals.labels import run_of
from otel_evals.evals.requirements import Requirement
from otel_evals.evals.results import EvalsResult, ItemResult
from otel_evals.evals.running import run_evals, run_evals_async
from otel_evals.evals.tally import ScorerTally, tally

__all__ = [
    "BatchScorer",
    "EvalsResult",
    "Item",
    "ItemResult",
    "Requirement",
    "ScorerTally",
    "read_items",
    "run_evals",
    "run_evals_async",
    "run_of",
    "tally",
]
