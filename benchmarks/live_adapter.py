"""Plugs otel-evals into the live-scorer benchmark harness; see its README for the scenarios.

Differs from a bare traced application only in the span processor and what it leads to. With
OTEL_EVALS_BENCH_SIGTERM=1 scoring is configured with `handle_sigterm`. OTEL_EVALS_BENCH_GRACE is `grace` in
seconds: in a closed loop of few runs, waiting for late log records is all that would be measured.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from adapters.base import Adapter, make_logger_provider, make_tracer_provider
from workload import otel_call

import otel_evals
from otel_evals import Config, Pipeline, Rule, install, sampling
from otel_evals._internal.config.loader import build_config
from otel_evals.destinations import Destination
from otel_evals.model import Run
from otel_evals.scorers import scorer as make_scorer
from otel_evals.testing import InMemoryDestination

sys.path.append(str(Path(__file__).parent))  # the harness loads this file by its path
from burning import Burning


class Finished(InMemoryDestination):
    """Tells the harness, in this process, that a run was scored."""

    def __init__(self, scorer) -> None:
        super().__init__()
        self.scorer = scorer

    async def export(self, batch) -> None:
        for _ in batch:
            self.scorer._fin()


class OtelEvals(Adapter):
    name = "otel_evals"
    scenarios = "ABCDE"
    note = "otel-evals, evaluation events only, as its peers emit"
    isolation = "thread"
    destinations: Sequence[Destination] = ()

    def setup(
        self, scorer, *, rate=1.0, concurrency=10, queue=None, log_path=None, mode="thread", defaults=False
    ):
        self.lp, self.log = make_logger_provider(log_path)
        self.p, self.exp = make_tracer_provider(True)
        if scorer.is_async:

            async def judge(run: Run) -> float:
                return await scorer.ascore(run.output)
        elif scorer.kind == "cpu":
            judge = Burning(scorer.iters)
            self.destinations, self.isolation = [Finished(scorer)], "process"
        else:

            def judge(run: Run) -> float:
                return scorer.score(run.output)

        inline = not scorer.is_async and scorer.kind != "cpu"
        self.scorer = make_scorer(id="m", inline=inline, version="1")(judge)
        self.concurrency, self.queue = concurrency, queue or 2048
        self.pipelines: dict[float, Pipeline] = {}
        self.processors = self.p._active_span_processor
        self.plain = self.processors._span_processors
        self.set_rate(rate)
        self.t = self.p.get_tracer("bench")

    def set_rate(self, rate: float):
        """Each rate has its own pipeline; only the current one stands in the provider."""
        if rate not in self.pipelines:
            config = build_config(
                [
                    Rule(
                        self.scorer,
                        sample=sampling.ratio(rate),
                        concurrency=self.concurrency,
                        isolation=self.isolation,
                    )
                ],
                self.destinations,
                limits={"queue_size": self.queue},
                grace=float(os.environ.get("OTEL_EVALS_BENCH_GRACE", "0.5")),
                span_attributes=False,
                evaluation_spans=False,
            )
            self.pipelines[rate] = self.build(config)
        self.current = self.pipelines[rate]
        self.processors._span_processors = (*self.plain, self.current.spans)

    def build(self, config: Config) -> Pipeline:
        if os.environ.get("OTEL_EVALS_BENCH_SIGTERM"):
            return install(replace(config, handle_sigterm=True), self.p, self.lp)
        return Pipeline(config, tracer_provider=self.p, logger_provider=self.lp)

    def call(self, user: str) -> str:
        return otel_call(self.t, user)

    def emitted(self):
        self.lp.force_flush()
        return self.log.n

    def flush(self, timeout=30.0):
        self.current.force_flush(int(timeout * 1000))

    async def aflush(self, timeout=30.0):
        end = time.monotonic() + timeout
        flushing = asyncio.get_running_loop().run_in_executor(None, self.flush, timeout)
        while not flushing.done() and time.monotonic() < end:
            await asyncio.sleep(0.002)

    def shutdown(self):
        self.p.shutdown()
        self.lp.shutdown()

    def loss_report(self):
        stats = self.current.stats()
        rule = stats.rules["m"]
        return {"dropped": dict(rule.dropped), "pending": rule.pending, "failed": dict(rule.failed)}


ADAPTER = OtelEvals
assert otel_evals
