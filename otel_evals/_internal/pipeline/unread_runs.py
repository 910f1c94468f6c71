"""Runs that are counted rather than read, because scoring ends."""

from __future__ import annotations

from collections.abc import Collection

from otel_evals._internal.capture.items import IntakeItem
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals._internal.model import Loss
from otel_evals._internal.read.split_runs import SplitRuns

__all__ = ["undecided", "what_is_left"]


def undecided(trace_id: str) -> Loss:
    """A run about which there was no time to ask the rules."""
    return Loss("run", "undecided_at_shutdown", trace_id)


def what_is_left(
    gatherer: Gatherer, split_runs: SplitRuns, items: Collection[IntakeItem], *, kept: bool
) -> list[Loss]:
    """Forget every run that was not scored; returns those that are lost with that.

    Args:
        gatherer: has the runs that are open.
        split_runs: has the runs that another one may continue.
        items: captured, and never added to the gatherer.
        kept: whether a store has the runs whose roots it was told of, for another process to score.
    """
    held = split_runs.flush()
    return [*gatherer.end(items), *([] if kept else [undecided(run.trace_id) for run in held])]
