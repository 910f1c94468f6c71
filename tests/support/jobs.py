"""Jobs made by hand, for tests of the engine and of the store."""

from __future__ import annotations

from otel_evals import Rule, Run
from otel_evals._internal.evaluate.job import Job, Target
from otel_evals.model import Sampled
from tests.support.runs import a_run

__all__ = ["a_job"]


def a_job(rule: Rule, run: Run | None = None, target: Target | None = None) -> Job:
    """A job of a rule, on a target of its own unless one is given, for which it is then awaited."""
    run = run or a_run()
    target = target or Target(run, run.root_span_id)
    target.awaited.add(rule.name)
    return Job(rule, run, Sampled(1.0, "always()"), target)
