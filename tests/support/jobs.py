"""Jobs made by hand, for tests of the evaluator and of the store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from otel_evals import Rule, Run
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.attach.attacher import Attacher, Opened
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.evaluate.evaluator import Evaluator
from otel_evals._internal.evaluate.job import Job, Target
from otel_evals._internal.evaluate.queue_interface import DurableQueue
from otel_evals._internal.sampling.algebra import Chance
from otel_evals._internal.sampling.decide import RunDecisions
from otel_evals.model import Evaluation, Outcome, Sampled
from tests.support.runs import a_run
from tests.support.waits import SECONDS

__all__ = ["Evaluating", "a_job"]


def a_job(rule: Rule, run: Run | None = None, target: Target | None = None) -> Job:
    """A job of a rule, on a target of its own unless one is given, for which it is then awaited."""
    run = run or a_run()
    target = target or Target(run, run.root_span_id)
    target.awaited[rule.name] = None
    return Job(rule, run, Sampled(1.0, "always()"), target)


class Evaluating(Attacher):
    """An evaluator of handmade jobs, and the jobs that began and ended."""

    def __init__(self, rules: Iterable[Rule], draw: float = 0.0, **options: Any) -> None:
        super().__init__(None, None, None, None)
        config = build_config(list(rules), [], **options)
        self.started: list[Job] = []
        self.ended: list[tuple[Job, Outcome]] = []
        self._jobs: dict[int, Job] = {}
        self._changed = asyncio.Event()
        ledger = Ledger([rule.name for rule in config.rules])
        store, deliver = DurableQueue(), lambda scored: None
        self.evaluator = Evaluator(config, ledger, self, deliver, store, draw=lambda: draw)
        self.scheduler = self.evaluator.scheduler

    def submit(self, rule: Rule, drop: str | None = None) -> Job:
        """A job of a rule, submitted."""
        job = a_job(rule)
        job.target.decisions[rule.asked_with] = RunDecisions(job.run, sampled={rule.scorer_id: Chance(1.0)})
        self._jobs[id(job.run)] = job
        self.evaluator.submit([job], drop)
        return job

    async def outcomes(self, count: int = 1) -> list[Outcome]:
        """The first outcomes, once there are that many."""
        async with asyncio.timeout(SECONDS):
            while len(self.ended) < count:
                self._changed.clear()
                await self._changed.wait()
        return [outcome for _, outcome in self.ended]

    def open(self, run: Run, *which: Any) -> Opened:
        """Note that an attempt begins."""
        self.started.append(self._jobs[id(run)])
        return super().open(run, *which)

    def attach(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        """Note an outcome."""
        self.ended.append((self._jobs[id(run)], evaluation.outcome))
        self._changed.set()
