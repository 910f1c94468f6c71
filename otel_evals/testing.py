"""Evaluate an agent on a data set or in tests, with the scorers that run in production.

`run_evals` scores the answers to a data set. The pytest fixture `scored` is a `ScoredFixture`.
"""

from otel_evals._internal.deliver.memory import InMemoryDestination
from otel_evals._internal.offline.assertions import Scored, ScoredFixture
from otel_evals._internal.offline.results import EvalsResult, Item, ItemResult, Requirement, read_items
from otel_evals._internal.offline.run_evals import run_evals, run_evals_async
from otel_evals._internal.scorers.kit.labels import Example, read_labels, run_of

__all__ = [
    "EvalsResult",
    "Example",
    "InMemoryDestination",
    "Item",
    "ItemResult",
    "Requirement",
    "Scored",
    "ScoredFixture",
    "read_items",
    "read_labels",
    "run_evals",
    "run_evals_async",
    "run_of",
]
