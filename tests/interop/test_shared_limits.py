"""Budgets that processes share through a real Redis, and one that goes away."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any

import anyio
import pytest

from otel_evals._internal.judges.judge import Call
from otel_evals.errors import BudgetExceededError, JudgeUnavailableError
from otel_evals.judges import Budget
from otel_evals.model import Usage
from tests.support.redis_server import RunningRedis, find_redis
from tests.support.waits import SECONDS, eventually

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(find_redis() is None, reason="Redis is not installed: apt-get install redis-server"),
]
CALL = Call(model="m", scorer_id="s", max_input_tokens=30, max_output_tokens=10, max_cost=0.01)
SPAWN: SpawnContext = multiprocessing.get_context("spawn")


@pytest.fixture
def server() -> Iterator[RunningRedis]:
    with RunningRedis() as running:
        yield running


def _spend(url: str, ready: Any, ends: Any) -> None:
    budget = Budget(usd=1, tokens=5_000, store=url)
    budget.spent()
    calls = 0

    async def spend() -> None:
        nonlocal calls
        while True:
            try:
                async with budget.around(CALL) as settle:
                    calls += 1
                    settle(Usage(input_tokens=20, output_tokens=5), 0.002)
            except BudgetExceededError:
                return

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(spend)

    ready.wait(60)
    anyio.run(main)
    ends.put(calls)


def in_processes(count: int, work: Callable[..., None], url: str) -> list[Any]:
    """What each of some processes that begin together has to tell."""
    ready, ends = SPAWN.Barrier(count), SPAWN.Queue()
    workers = [SPAWN.Process(target=work, args=(url, ready, ends)) for _ in range(count)]
    for worker in workers:
        worker.start()
    found = [ends.get(timeout=120) for _ in workers]
    for worker in workers:
        worker.join(SECONDS)
        assert worker.exitcode == 0
    return found


def test_processes_spend_one_budget_to_its_end_and_no_further(server: RunningRedis) -> None:
    calls = in_processes(3, _spend, server.url)
    usd, tokens, estimated = Budget(usd=1, tokens=5_000, store=server.url).spent()
    assert not estimated
    assert tokens == 25 * sum(calls)
    assert usd == pytest.approx(0.002 * sum(calls))
    assert 5_000 - 4 * 12 * 40 <= tokens <= 5_000


def test_a_budget_is_refused_while_its_server_is_away_and_goes_on_after(server: RunningRedis) -> None:
    budget = Budget(tokens=100, store=server.url)

    async def call() -> None:
        async with budget.around(CALL) as settle:
            settle(Usage(input_tokens=20, output_tokens=5), None)

    anyio.run(call)
    server.kill()
    for _ in range(2):
        with pytest.raises(JudgeUnavailableError):
            anyio.run(call)
    server.start()

    def answered() -> bool:
        try:
            anyio.run(call)
        except JudgeUnavailableError:
            return False
        return True

    eventually(answered)
    assert budget.spent()[1] == 50, "the server kept nothing, but the process knows its own part"
    assert Budget(tokens=100, store=server.url).spent()[1] == 25


def test_a_server_with_tls_is_trusted_by_its_own_authority_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with RunningRedis(tls=tmp_path) as server:

        def spend(url: str) -> int:
            budget = Budget(tokens=100, store=url)

            async def call() -> None:
                async with budget.around(CALL) as settle:
                    settle(Usage(input_tokens=20, output_tokens=5), None)

            anyio.run(call)
            return budget.spent()[1]

        assert [spend(server.url), spend(server.url)] == [25, 50]
        nobody = server.url.partition("?")[0]
        for wrong in (nobody, nobody.replace("rediss:", "redis:")):
            with pytest.raises(JudgeUnavailableError):
                spend(wrong)
    assert "secret" not in caplog.text
