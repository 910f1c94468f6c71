"""Traffic with a known mean under `ratio(0.05) | errors()`, scored live; as a program, to be scraped.

    python sampled_traffic.py SEED RUNS

prints the port of its metrics, samples one run whose scorer waits for a line on standard input, then makes
the rest of the traffic, and prints the sums of what was scored and the mean of all runs as JSON. It ends when
standard input does.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from dataclasses import asdict
from typing import Any

from opentelemetry import trace

from otel_evals import Rule, Run, sampling, scorer
from otel_evals.model import Evaluation, Score
from otel_evals.statistics import Sums
from tests.support.traffic import Live, SeededIds, agent_run

__all__ = ["SAMPLED", "passes", "scored_sums", "send"]


@scorer(inline=True)
def passes(run: Run) -> bool:
    """Whether the answer is right."""
    return run.output == "right"


SAMPLED = Rule(passes, sample=sampling.ratio(0.05) | sampling.errors())


def send(live: Live, rng: random.Random, runs: int) -> float:
    """A tenth of the runs fail, and are right in 20% of the cases, the others in 97.8%; the mean of all."""
    total = 0
    for number in range(runs):
        failed = number % 10 == 0
        right = rng.random() < (0.2 if failed else 0.97778)
        total += right
        agent_run(live.tracer, answer="right" if right else "wrong", during=_fail if failed else _go_on)
    return total / runs


def scored_sums(evaluations: list[Evaluation]) -> Sums:
    """The sums of these scores."""
    scored = [(e.outcome.value, e.sampled.weight) for e in evaluations if isinstance(e.outcome, Score)]
    return Sums.of_runs(scored)


def _fail(span: trace.Span) -> None:
    span.set_status(trace.StatusCode.ERROR)


def _go_on(span: trace.Span) -> None:
    pass


def main(seed: int, runs: int) -> None:
    from opentelemetry import metrics
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import start_http_server

    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    server, _ = start_http_server(0, "127.0.0.1")
    scraped = threading.Event()

    @scorer(id="passes", version="1")
    def waits(run: Run) -> bool:
        scraped.wait()
        return run.output == "right"

    live = Live(Rule(waits, sample=SAMPLED.sample, timeout=600), ids=SeededIds(seed))
    agent_run(live.tracer, answer="wrong", during=_fail)
    _say(port=server.server_port)
    sys.stdin.readline()
    scraped.set()
    mean = send(live, random.Random(seed), runs)
    live.flush(300_000)
    evaluations = [e for scored in live.scored.runs for e in scored.evaluations]
    _say(sums=asdict(scored_sums(evaluations)), mean=mean)
    sys.stdin.read()
    live.pipeline.shutdown()


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
