"""JudgeLimits, breaker, budgets and cache of judges, against a real HTTP server where calls are made."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from otel_evals._internal.judges.call_limits import RateWindow, parse_rate
from otel_evals._internal.judges.judge import Call
from otel_evals._internal.judges.resolver import resolve_judge
from otel_evals.errors import BudgetExceededError, ConfigError, JudgeError, JudgeUnavailableError
from otel_evals.judges import (
    Budget,
    CachedJudge,
    JudgeLimits,
    JudgeReply,
    JudgeRequest,
    LiteLLMJudge,
    ScriptedJudge,
)
from otel_evals.model import Usage
from tests.support.stub_openai import Misbehave, StubOpenAI
from tests.support.waits import SECONDS

TEXT = JudgeRequest(instructions="Explain.", prompt="Why?", scorer_id="s", step="generate_reason")
CALL = Call(model="m", scorer_id="s", max_input_tokens=30, max_output_tokens=10, max_cost=0.01)


class Verdict(BaseModel):
    verdict: str


TYPED = JudgeRequest(instructions="Judge.", prompt="So?", schema=Verdict, scorer_id="s", step="analyze")


def run(work: Callable[[], Awaitable[Any]]) -> Any:
    """Run on a loop of its own and close the HTTP clients LiteLLM keeps."""

    async def main() -> Any:
        from otel_evals._internal.judges.litellm import load

        try:
            return await work()
        finally:
            load()
            from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

            await close_litellm_async_clients()

    return anyio.run(main)


async def many(count: int, ask: Callable[[], Awaitable[Any]]) -> list[Any]:
    """What so many questions at once end in: answers and errors."""
    ends: list[Any] = []

    async def one() -> None:
        try:
            ends.append(await ask())
        except JudgeError as error:
            ends.append(error)

    async with anyio.create_task_group() as group:
        for _ in range(count):
            group.start_soon(one)
    return ends


# --- rates ---


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 8), st.lists(st.tuples(st.floats(0, 0.3), st.integers(1, 10)), min_size=1, max_size=50))
def test_no_window_ever_holds_more_than_its_limit(limit: int, calls: list[tuple[float, int]]) -> None:
    window, now = RateWindow(limit, 1.0), 0.0
    starts: list[tuple[float, int]] = []
    for gap, amount in calls:
        now += gap
        while (wait := window.wait(now, amount)) > 0:
            now += wait
        window.take(now, amount)
        starts.append((now, min(amount, limit)))
    for begin, _ in starts:
        assert sum(amount for t, amount in starts if begin <= t < begin + 1.0 - 1e-9) <= limit


def test_no_more_calls_start_than_the_rate_and_every_one_is_made() -> None:
    limits, times = JudgeLimits(requests="10/s"), list[float]()

    async def call() -> None:
        async with limits.around(CALL):
            times.append(time.monotonic())

    ends = anyio.run(many, 15, call)
    assert len(ends) == len(times) == 15, "it queues, it does not refuse"
    assert min(later - earlier for earlier, later in zip(times, times[10:], strict=False)) >= 0.95


def test_repairs_count_against_the_rate_too() -> None:
    with StubOpenAI("no JSON") as stub:
        judge = LiteLLMJudge("openai/stub", api_base=stub.url, limiters=(JudgeLimits(requests="3/s"),))
        with pytest.raises(JudgeError):
            run(lambda: judge.ask(TYPED))
    assert len(stub.times) == 6, "five forms of asking, and a repair"
    assert stub.times[5] - stub.times[0] >= 0.8


def test_concurrency_is_bounded() -> None:
    with StubOpenAI(Misbehave("slow", seconds=0.05)) as stub:
        judge = LiteLLMJudge("openai/stub", api_base=stub.url, limiters=(JudgeLimits(concurrency=3),))
        ends = run(lambda: many(9, lambda: judge.ask(TEXT)))
    assert len(ends) == 9
    assert stub.most_in_flight <= 3


def test_tokens_are_corrected_by_what_was_used() -> None:
    now = [0.0]
    limits = JudgeLimits(tokens="600/min", clock=lambda: now[0])

    async def call(used: int) -> None:
        async with limits.around(CALL) as settle:
            settle(Usage(input_tokens=used), None)

    async def main() -> None:
        with anyio.fail_after(10):  # on a clock that stands still a call that has to wait waits for ever
            for _ in range(20):
                await call(10)
        with anyio.move_on_after(0.05) as scope:
            await call(590)
            await call(10)
        assert scope.cancelled_caught, "the window is full"

    anyio.run(main)


@pytest.mark.parametrize(("rate", "parsed"), [("10/s", (10, 1)), ("1_000 per hour", (1000, 3600))])
def test_rates_are_read(rate: str, parsed: tuple[int, float]) -> None:
    assert parse_rate(rate, "x") == parsed


@pytest.mark.parametrize("rate", ["", "10", "0/s", "ten/s", "10/fortnight", "-1/s"])
def test_what_is_no_rate_is_refused(rate: str) -> None:
    with pytest.raises(ConfigError, match=r"limits\.requests"):
        parse_rate(rate, "limits.requests")


# --- breaker ---


def test_an_open_breaker_says_how_long() -> None:
    now = [100.0]
    limits = JudgeLimits(failures=1, cooldown=30, clock=lambda: now[0])

    async def fail() -> None:
        async with limits.around(CALL):
            raise JudgeUnavailableError("busy")

    async def main() -> float | None:
        with pytest.raises(JudgeUnavailableError, match="busy"):
            await fail()
        now[0] += 10
        with pytest.raises(JudgeUnavailableError, match="not asked again for 20 s") as caught:
            await fail()
        return caught.value.retry_after

    assert anyio.run(main) == 20


@pytest.mark.parametrize(("asked", "kept"), [(1e8, 300.0), (60.0, 60.0), (float("inf"), 300.0)])
def test_a_pause_asked_for_is_bounded_and_calls_fail_meanwhile(asked: float, kept: float) -> None:
    now = [0.0]
    limits = JudgeLimits(clock=lambda: now[0])

    async def call(error: JudgeUnavailableError | None = None) -> None:
        async with limits.around(CALL):
            if error is not None:
                raise error

    async def main() -> None:
        with pytest.raises(JudgeUnavailableError, match="busy"):
            await call(JudgeUnavailableError("busy", retry_after=asked))
        with anyio.fail_after(10), pytest.raises(JudgeUnavailableError, match="asked for a pause") as caught:
            await call()
        assert caught.value.retry_after == kept
        now[0] = kept
        await call()

    anyio.run(main)


def test_a_short_pause_is_waited_for() -> None:
    now = [0.0]
    limits = JudgeLimits(clock=lambda: now[0])

    async def main() -> None:
        with pytest.raises(JudgeUnavailableError):
            async with limits.around(CALL):
                raise JudgeUnavailableError("busy", retry_after=2.0)
        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await anyio.sleep(0.1)
            assert not called
            now[0] = 2.0
        assert called

    async def call() -> None:
        async with limits.around(CALL):
            called.append(now[0])

    called: list[float] = []
    anyio.run(main)


def test_the_trial_of_an_open_breaker_is_the_only_call_for_a_cooldown() -> None:
    now = [0.0]
    limits = JudgeLimits(failures=1, cooldown=10, clock=lambda: now[0])

    async def call(error: bool) -> str:
        try:
            async with limits.around(CALL):
                if error:
                    raise JudgeUnavailableError("busy")
        except JudgeUnavailableError as caught:
            return str(caught)
        return "made"

    async def main() -> list[str]:
        ends = []
        for at, error in [
            (0.0, True),
            (9.0, True),
            (10.0, True),
            (19.0, False),
            (20.0, False),
            (21.0, False),
        ]:
            now[0] = float(at)
            ends.append(await call(error))
        return ends

    ends = anyio.run(main)
    assert [end if end in ("busy", "made") else "not asked" for end in ends] == [
        "busy", "not asked", "busy", "not asked", "made", "made",
    ]  # fmt: skip


# --- budgets ---


def judge_with(budget: Budget, stub: StubOpenAI, **options: Any) -> LiteLLMJudge:
    prices = {"input_price": 10.0, "output_price": 10.0, "max_tokens": 100, **options}
    return LiteLLMJudge("openai/stub", api_base=stub.url, limiters=(budget,), **prices)


def test_a_budget_in_dollars_is_never_exceeded_by_calls_at_once() -> None:
    budget = Budget(usd=0.02)
    with StubOpenAI("so", usage=(120, 20)) as stub:
        judge = judge_with(budget, stub)
        ends = run(lambda: many(30, lambda: judge.ask(TEXT)))
    answered = [end for end in ends if isinstance(end, JudgeReply)]
    assert 0 < len(answered) < 30
    assert len(stub.requests) == len(answered), "what does not fit is not asked"
    spent = sum(reply.cost or 0.0 for reply in answered)
    assert spent <= 0.02
    assert budget.spent()[0] == pytest.approx(spent), "settled to what it really cost"
    assert not budget.spent().estimated
    assert all(isinstance(end, BudgetExceededError) for end in ends if not isinstance(end, JudgeReply))


@pytest.mark.parametrize("cost", [-1e9, float("nan"), float("-inf")])
def test_no_cost_makes_room_in_a_budget(cost: float) -> None:
    budget = Budget(usd=1.0)
    priced = Call(model="m", scorer_id="s", max_input_tokens=30, max_output_tokens=10, max_cost=0.5)

    async def main() -> None:
        async with budget.around(priced) as settle:
            settle(Usage(input_tokens=-(10**9)), cost)

    anyio.run(main)
    assert 0.0 <= budget.spent()[0] <= 0.5
    assert budget.spent()[1] >= 0


def test_a_budget_starts_anew_each_day() -> None:
    now = [0.0]
    budget = Budget(tokens=50, now=lambda: now[0])

    async def use() -> None:
        async with budget.around(CALL) as settle:
            settle(Usage(input_tokens=40), None)

    async def main() -> None:
        await use()
        with pytest.raises(BudgetExceededError, match="50 tokens"):
            await use()
        now[0] += 86_400
        await use()

    anyio.run(main)


def test_a_budget_may_be_per_scorer() -> None:
    budget = Budget(tokens=50, per="scorer")

    async def use(scorer: str) -> None:
        call = Call(model="m", scorer_id=scorer, max_input_tokens=30, max_output_tokens=10, max_cost=None)
        async with budget.around(call) as settle:
            settle(Usage(input_tokens=40), None)

    async def main() -> None:
        await use("one")
        await use("two")
        with pytest.raises(BudgetExceededError, match="one"):
            await use("one")

    anyio.run(main)
    assert budget.spent("two")[:2] == (0.0, 40)


@pytest.mark.parametrize(("status", "kept"), [(429, False), (401, False), (500, True)])
def test_what_a_failed_call_may_have_cost_stays_reserved(status: int, kept: bool) -> None:
    budget = Budget(usd=1)
    with StubOpenAI(Misbehave("status", status)) as stub, pytest.raises(JudgeError):
        run(lambda: judge_with(budget, stub).ask(TEXT))
    assert (budget.spent()[0] > 0) is budget.spent().estimated is kept


def test_a_budget_needs_a_limit_on_answers_and_a_size() -> None:
    with pytest.raises(ConfigError, match=r"model\.max_tokens"):
        LiteLLMJudge("openai/stub", limiters=(Budget(usd=1),))
    for options in ({}, {"usd": 0}, {"tokens": -1}, {"usd": 1, "per": "week"}):
        with pytest.raises(ConfigError, match="budget"):
            Budget(**options)  # type: ignore[arg-type]  # what a user may do


def _spend(path: str, start: float, spent: Any) -> None:
    budget = Budget(tokens=1000, store=path)
    time.sleep(max(0.0, start - time.time()))

    async def spend() -> None:
        with contextlib.suppress(BudgetExceededError):
            for _ in range(300):
                async with budget.around(CALL) as settle:
                    settle(Usage(input_tokens=4), 0.0)
                spent.put(4)

    anyio.run(spend)


@pytest.mark.slow
def test_two_processes_on_one_store_never_overspend(tmp_path: Path) -> None:
    path = str(tmp_path / "budget.db")
    context = multiprocessing.get_context("spawn")
    spent = context.SimpleQueue()
    workers = [context.Process(target=_spend, args=(path, time.time() + 4.0, spent)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(SECONDS)
        assert worker.exitcode == 0
    total = 0
    while not spent.empty():
        total += spent.get()
    assert Budget(tokens=1000, store=path).spent() == (0.0, total, False)
    assert 920 < total <= 1000, "two writers fill it, and never overfill it"


def test_a_relative_store_stays_in_its_place_after_a_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    budget, judge = Budget(tokens=100, store="budget.db"), ScriptedJudge({"generate_reason": "so"})
    cached = CachedJudge(judge, store="cache.db")
    (tmp_path / "elsewhere").mkdir()

    async def use() -> None:
        async with budget.around(CALL) as settle:
            settle(Usage(input_tokens=40), None)
        await cached.ask(TEXT)

    for folder in (tmp_path, tmp_path / "elsewhere"):
        monkeypatch.chdir(folder)
        anyio.run(use)
        budget._counters[0]._file.close()  # as after any failure: it opens its file again
        cached._file.close()
    assert budget.spent().tokens == 80
    assert len(judge.requests) == 1
    assert not list((tmp_path / "elsewhere").iterdir())


# --- cache ---


def test_the_same_question_is_asked_once_at_a_time_and_then_remembered(tmp_path: Path) -> None:
    store = tmp_path / "cache.db"
    with StubOpenAI(Misbehave("slow", seconds=0.1)) as stub:
        judge = CachedJudge(LiteLLMJudge("openai/stub", api_base=stub.url), store=store)
        replies = run(lambda: many(5, lambda: judge.ask(TEXT)))
        again = run(
            lambda: CachedJudge(LiteLLMJudge("openai/stub", api_base=stub.url), store=store).ask(TEXT)
        )
    assert len(stub.requests) == 1
    assert {reply.value for reply in [*replies, again]} == {"slow but sure"}
    assert sum(reply.usage.total_tokens for reply in replies) == 140, "only the one call cost something"
    assert (again.cost, again.attempts) == (0.0, 0)


def test_questions_differ_by_text_form_vote_and_model_but_not_by_mark() -> None:
    asked = ScriptedJudge({"analyze": {"verdict": "yes"}})
    cached = CachedJudge(asked)

    def question(mark: str = "aa", text: str = "t", sample: int = 0) -> JudgeRequest:
        return JudgeRequest(
            instructions=f"i {mark}",
            prompt=f"{mark} {text}",
            schema=Verdict,
            step="analyze",
            mark=mark,
            sample=sample,
        )

    async def main() -> None:
        for request in (question(), question("bb"), question(text="u"), question(sample=1), question("cc")):
            assert (await cached.ask(request)).value == Verdict(verdict="yes")

    anyio.run(main)
    assert len(asked.requests) == 3


def test_failures_are_not_remembered() -> None:
    asked = ScriptedJudge({"generate_reason": [JudgeUnavailableError("busy"), "so"]})
    cached = CachedJudge(asked)

    async def main() -> list[Any]:
        return await many(2, lambda: cached.ask(TEXT))

    ends = anyio.run(main)
    assert sorted(type(end).__name__ for end in ends) == ["JudgeReply", "JudgeUnavailableError"]


def test_a_full_cache_forgets_what_was_unused_longest() -> None:
    asked = ScriptedJudge({"x": lambda request: request.prompt})
    cached = CachedJudge(asked, max_entries=2)

    async def main() -> None:
        for prompt in ("a", "b", "a", "c", "a", "b"):
            await cached.ask(JudgeRequest(instructions="", prompt=prompt, step="x"))

    anyio.run(main)
    assert [request.prompt for request in asked.requests] == ["a", "b", "c", "b"]


# --- words ---


def test_equal_words_give_the_same_judge() -> None:
    words = {"model": "openai/stub", "limits": {"requests": "10/s"}, "budget": {"tokens": 5}, "max_tokens": 9}
    judge = resolve_judge(words)
    assert isinstance(judge, LiteLLMJudge)
    assert [type(gate).__name__ for gate in judge.limiters] == ["JudgeLimits", "Budget"]
    assert resolve_judge(dict(words)) is judge
    assert isinstance(resolve_judge({"model": "openai/stub", "cache": True}), CachedJudge)


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"model": "m", "temprature": 1}, "model.temprature"),
        ({"model": "m", "limits": {"request": "1/s"}}, "limits"),
        ({"model": "m", "limiters": []}, "did you mean 'limits'"),
        ({"model": "m", "budget": 5}, "budget"),
    ],
)
def test_wrong_words_name_their_field(words: dict[str, Any], field: str) -> None:
    with pytest.raises(ConfigError, match=field):
        resolve_judge(words)
