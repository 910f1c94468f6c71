"""Rules that replace others: what was sampled ends under those that sampled it, and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from otel_evals import Rule, Run, sampling, scorer
from otel_evals._internal.config.loader import build_config
from otel_evals.model import Loss
from tests.support.replacing import replace
from tests.support.trace_builder import TraceBuilder
from tests.support.traffic import agent_run
from tests.support.wired import Wired, wired


def gated(name: str, version: str, gate: asyncio.Event | None = None) -> Any:
    """A scorer that waits, if it is given something to wait for."""

    async def judge(run: Run) -> float:
        if gate is not None:
            await gate.wait()
        return 1.0

    return scorer(id=name, version=version)(judge)


def use(w: Wired, *rules: Any) -> None:
    w.steps.use_rules(build_config(rules))


def test_a_run_that_was_sampled_ends_under_the_rules_that_sampled_it() -> None:
    async def body() -> None:
        gate = asyncio.Event()
        async with wired(Rule(gated("a", "1", gate)), Rule(gated("gone", "1", gate))) as w:
            agent_run(w.tracer)
            w.feed()
            await w.until(lambda: len(w.steps.rule_sets.running()) == 2)
            use(w, Rule(gated("a", "2")), Rule(gated("new", "1")))
            agent_run(w.tracer)
            w.feed()
            await w.until(lambda: len(w.scored.evaluations) == 2)
            assert len(w.steps.rule_sets.earlier) == 1
            gate.set()
            found = await w.settled()
            await w.until(lambda: not w.steps.rule_sets.earlier)
        by_run: dict[str, set[tuple[str, str]]] = {}
        for each in found:
            by_run.setdefault(each.trace_id, set()).add((each.scorer_id, each.scorer_version))
        assert sorted(map(sorted, by_run.values())) == [
            [("a", "1"), ("gone", "1")],
            [("a", "2"), ("new", "1")],
        ]

    asyncio.run(body())


def test_a_cascade_goes_on_under_its_own_rules() -> None:
    async def body() -> None:
        gate = asyncio.Event()
        follows = Rule(gated("follows", "1"), sample=sampling.below("a", 2.0))
        async with wired(Rule(gated("a", "1", gate)), follows) as w:
            agent_run(w.tracer)
            w.feed()
            await w.until(w.steps.rule_sets.running)
            use(w, Rule(gated("a", "2")))
            gate.set()
            assert {each.scorer_id for each in await w.settled()} == {"a", "follows"}

    asyncio.run(body())


def test_jobs_under_earlier_rules_are_dropped_at_the_end_and_counted() -> None:
    async def body() -> None:
        async with wired(Rule(gated("a", "1", asyncio.Event()))) as w:
            agent_run(w.tracer)
            w.feed()
            await w.until(w.steps.rule_sets.running)
            use(w, Rule(gated("b", "1")))
            w.steps.rule_sets.abort("shutdown")
            assert w.ledger.stats().rules["a"].dropped == {"shutdown": 1}
            assert w.ledger.stats().check() == []

    asyncio.run(body())


def test_a_run_that_began_before_sampling_was_raised_is_not_judged_by_what_is_left_of_it() -> None:
    async def body() -> None:
        began = TraceBuilder("tests").add("invoke_agent", {"gen_ai.operation.name": "invoke_agent"}).run
        async with wired(Rule(gated("a", "1"), sample=sampling.never())) as w:
            use(w, Rule(gated("a", "1")))
            fresh = replace(began, start_time=time.time_ns(), trace_id="c" * 32)
            assert w.steps.rule_sets.whole([began, fresh]) == (
                [fresh],
                [Loss("run", "began_before_reload", began.trace_id)],
            )
            use(w, Rule(gated("a", "1"), sample=sampling.ratio(0.5)))
            assert w.steps.rule_sets.whole([fresh]) == ([fresh], []), "lowered: nothing was left out"

    asyncio.run(body())
