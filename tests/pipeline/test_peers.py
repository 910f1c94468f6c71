"""Bursts, limits and hanging judges: where live evaluators are known to drop, exceed or stand still."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult

from otel_evals import Rule, Run
from otel_evals._internal.judges.judge import Call, Settle
from otel_evals._internal.judges.litellm import load
from otel_evals.judges import JudgeLimits, JudgeRequest, LiteLLMJudge
from otel_evals.scorers import Scorer, panel, scorer
from tests.support.stub_openai import StubOpenAI
from tests.support.traffic import Live
from tests.support.waits import SECONDS, eventually


@scorer
async def slow_judge(run: Run) -> float:
    await asyncio.sleep(0.5)
    return 1.0


@scorer
def slow_sync_judge(run: Run) -> float:
    time.sleep(0.5)
    return 1.0


@pytest.mark.parametrize("judge", [slow_judge, slow_sync_judge], ids=["async", "in threads"])
def test_a_burst_of_500_calls_is_scored_whole(judge: Scorer) -> None:
    """500 calls at once of an asyncio application, a judge of half a second: nobody is dropped."""

    async def burst() -> float:
        async def agent() -> None:
            live.run()
            await asyncio.sleep(0)

        began = time.perf_counter()
        await asyncio.gather(*(agent() for _ in range(500)))
        return time.perf_counter() - began

    with Live(Rule(judge, concurrency=250)) as live:
        asyncio.run(burst())
        assert live.flush()
        stats = live.pipeline.stats()
        assert stats.rules[judge.id].scored == 500
        assert not stats.rules[judge.id].dropped
        assert stats.check() == []
        assert len({s.run.trace_id for s in live.scored.runs}) == 500


class Departures:
    """Notes when each request leaves; when it arrives says more of the machine than of the limit."""

    def __init__(self) -> None:
        self.times: list[float] = []

    @asynccontextmanager
    async def around(self, call: Call) -> AsyncIterator[Settle]:
        self.times.append(time.monotonic())
        yield lambda usage, cost: None


@pytest.mark.slow
def test_a_limited_judge_is_asked_ten_times_per_second_and_everyone_is_served() -> None:
    """No second sees an eleventh request; what waits for its turn is scored, not dropped."""
    load()
    departures = Departures()

    def asking(judge: LiteLLMJudge) -> Scorer:
        @scorer(version="1")
        async def asks(run: Run) -> float:
            await judge.ask(JudgeRequest(instructions="", prompt=run.input or ""))
            return 1.0

        return asks

    with StubOpenAI("fine") as stub:
        judge = LiteLLMJudge(
            "openai/any", api_base=stub.url, limiters=(JudgeLimits(requests="10/s"), departures)
        )
        with Live(Rule(asking(judge), concurrency=100)) as live:
            for _ in range(25):
                live.run()
            assert live.flush()
            assert live.pipeline.stats().rules["asks"].scored == 25
    times = departures.times
    assert len(stub.times) == len(times) == 25
    assert all(later - earlier >= 0.95 for earlier, later in zip(times, times[10:], strict=False))


class RecordOnly(Sampler):
    """Spans are recorded for processors but not sampled for export."""

    def should_sample(self, *args: Any, **options: Any) -> SamplingResult:
        return SamplingResult(Decision.RECORD_ONLY)

    def get_description(self) -> str:
        return "record only"


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Set at the end, so that no thread hangs on."""
    event = threading.Event()
    yield event
    event.set()


def test_hanging_threads_take_neither_other_scorers_nor_destinations_slots(
    stop: threading.Event, tmp_path: Path
) -> None:
    """Sync scorers that hang, several threads each, fill their own lane; all else goes on meanwhile."""

    def hanging(name: str) -> Scorer:
        return scorer(id=name, version="1")(lambda run: stop.wait(SECONDS))

    def for_support(run: Run) -> bool:
        return run.agent_name == "support"

    hang = Rule(
        panel([hanging(f"hangs{i}") for i in range(4)], id="panel"),
        timeout=SECONDS,
        concurrency=16,
        when=for_support,
    )

    @scorer
    def quick(run: Run) -> bool:
        return True

    path = tmp_path / "scores.jsonl"
    with Live(hang, Rule(quick), destinations=[{"jsonl": {"path": path}}]) as live:
        for _ in range(40):
            live.run()
        eventually(lambda: live.pipeline.stats().rules["quick"].scored == 40)
        live.run(agent="other")
        eventually(lambda: path.exists() and '"other"' in path.read_text())
        assert live.pipeline.stats().rules["panel"].scored == 0
        stop.set()
        assert live.flush()
