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
from otel_evals.model import Score
from otel_evals.statistics import Sums
from tests.support.traffic import Live, SeededIds, agent_run


def send(live: Live, rng: random.Random, runs: int) -> float:
    """A tenth of the runs fail, and are right in 20% of the cases, the others in 97.8%; the mean of all."""
    total = 0
    for number in range(runs):
        failed = number % 10 == 0
        right = rng.random() < (0.2 if failed else 0.97778)
        total += right
        agent_run(live.tracer, answer="right" if right else "wrong", **({"during": _fail} if failed else {}))
    return total / runs


def _fail(span: trace.Span) -> None:
    span.set_status(trace.StatusCode.ERROR)


def main(seed: int, runs: int) -> None:
    from opentelemetry import metrics
    from opentelemetry.exporter.prometheus import PrometheusMetricReader
    from opentelemetry.sdk.metrics import MeterProvider
    from prometheus_client import start_http_server

    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    server, _ = start_http_server(0, "127.0.0.1")
    scraped = threading.Event()

    @scorer(version="1")
    def passes(run: Run) -> bool:
        scraped.wait()
        return run.output == "right"

    sampled = sampling.ratio(0.05) | sampling.errors()
    live = Live(Rule(passes, sample=sampled, timeout=600), ids=SeededIds(seed))
    agent_run(live.tracer, answer="wrong", during=_fail)
    _say(port=server.server_port)
    sys.stdin.readline()
    scraped.set()
    mean = send(live, random.Random(seed), runs)
    live.flush(300_000)
    scored = [e for e in live.scored.evaluations if isinstance(e.outcome, Score)]
    sums = Sums.of_runs([(e.outcome.value, e.sampled.weight) for e in scored])
    _say(sums=asdict(sums), mean=mean)
    sys.stdin.read()
    live.pipeline.shutdown()


def _say(**what: Any) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
