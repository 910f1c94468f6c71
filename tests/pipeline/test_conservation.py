"""The law of conservation: whatever goes wrong, every sampled run ends as exactly one thing, counted."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_evals import NotScored, Rule, Run, Stats, sampling
from otel_evals.errors import JudgeUnavailableError
from otel_evals.scorers import scorer
from tests.support.traffic import Live

FAULTS = ("none", "none", "raises", "hangs", "not_scorable", "unavailable", "nan", "cancels")


def faulty(seed: int, name: str) -> Any:
    """A scorer that does to each run what the run's trace id and the seed say."""

    async def judge(run: Run) -> float | NotScored:
        fault = random.Random(f"{seed}{name}{run.trace_id}").choice(FAULTS)
        match fault:
            case "raises":
                raise KeyError("no such order")
            case "hangs":
                await asyncio.sleep(30)
            case "not_scorable":
                return NotScored(reason="no_tool_calls")
            case "unavailable":
                raise JudgeUnavailableError("429")
            case "nan":
                return float("nan")
            case "cancels":
                raise asyncio.CancelledError
        return 1.0

    return scorer(id=name, version="1")(judge)


def ended(stats: Stats, name: str) -> Counter[str]:
    rule = stats.rules[name]
    return Counter(
        scored=rule.scored,
        not_scored=sum(rule.not_scored.values()),
        failed=sum(rule.failed.values()),
        dropped=sum(rule.dropped.values()),
    )


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10_000), st.integers(1, 30), st.floats(0.2, 1.0))
def test_a_thousand_faulty_runs_add_up(seed: int, queue_size: int, rate: float) -> None:
    """1,000 runs over the examples; scorers raise, hang, decline, are cut off and find queues full."""
    rules = (
        Rule(faulty(seed, "a"), sample=sampling.ratio(rate), timeout=0.05, concurrency=4, attempts=1),
        Rule(faulty(seed, "b"), timeout=0.05, concurrency=2, attempts=1),
    )
    with Live(*rules, queue_size=queue_size, span_attributes=False) as live:
        traces = [live.run() for _ in range(200)]
        while_running = live.pipeline.stats()
        assert while_running.check() == []
        live.pipeline.force_flush(200)
        assert live.pipeline.stats().check() == []
        live.pipeline.shutdown(20_000)
        stats = live.pipeline.stats()

    assert stats.check() == []
    assert stats.seen == stats.eligible == len(traces)
    assert stats.rules["a"].sampled == sum(sampling.is_sampled(rate, t) for t in traces)
    reported = {name: Counter[str]() for name in ("a", "b")}
    for evaluation in live.scored.evaluations:
        reported[evaluation.scorer_id][evaluation.status] += 1
    for name in ("a", "b"):
        assert stats.rules[name].pending == 0
        assert ended(stats, name) == reported[name], "each outcome reached the destination exactly once"
        assert stats.rules[name].sampled == sum(reported[name].values())
    ids = [e.evaluation_id for e in live.scored.evaluations]
    assert len(ids) == len(set(ids))
