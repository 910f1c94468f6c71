"""The targets of checks, kept until their runs close: then other rules' evaluations join them."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.job import Target
from otel_evals._internal.model import Run
from otel_evals._internal.sampling.algebra import Earlier
from otel_evals._internal.sampling.decide import CHECKED, RunDecisions

_MOST = 10_000


class UnderWay:
    """Targets by the span id of their run's root. Engine's thread only."""

    def __init__(self) -> None:
        self.targets: OrderedDict[str, Target] = OrderedDict()
        """The least recently checked first."""

    def target_of(self, run: Run) -> Target:
        """Return the target of a run for another check."""
        target = self.targets.get(run.root_span_id)
        if target is None:
            target = self.targets[run.root_span_id] = Target(run, run.root_span_id, trace_id=run.trace_id)
            target.decisions["run"] = RunDecisions(run)
        target.run, target.under_way = run, time.monotonic()
        self.targets.move_to_end(run.root_span_id)
        return target

    def close(self, run: Run) -> Target | None:
        """Return the target of a run that has closed; None if it was not checked."""
        target = self.targets.pop(run.root_span_id, None)
        if target is not None:
            target.run, target.under_way = run, None
        return target

    def left_since(self, until: float) -> list[Target]:
        """Remove and return targets last checked before a time of `time.monotonic`, or too many."""
        left = []
        while self.targets and (len(self.targets) > _MOST or self._oldest <= until):
            left.append(self.targets.popitem(last=False)[1])
            left[-1].under_way = None
        return left

    @property
    def _oldest(self) -> float:
        return next(iter(self.targets.values())).under_way or 0.0


def decided_by_checks(target: Target, rules: Mapping[str, Rule]) -> RunDecisions:
    """Return the decisions about a run that checks have made: its rules do not judge it again."""
    decisions = RunDecisions(target.run)
    outcomes = {evaluation.rule: evaluation.outcome for evaluation in target.evaluations}
    for name in target.checks:
        scorer_id = rules[name].scorer_id
        decisions.sampled[scorer_id] = CHECKED
        if name in outcomes:
            decisions.outcomes[scorer_id] = Earlier(CHECKED, outcomes[name])
    return decisions
