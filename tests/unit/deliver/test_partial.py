"""Partial success: one score that is refused, or whose trace is not there yet, holds up no other."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.deliver.pending_deliveries import PendingDelivery
from otel_evals.destinations import DestinationStats, Unaccepted
from otel_evals.errors import DestinationError
from otel_evals.model import Evaluation, Outcome, Score, ScoredRun
from tests.support.scored import scored_run

pytestmark = pytest.mark.anyio
QUICK: dict[str, Any] = {"attempts": 4, "first": 0.01, "longest": 0.02, "timeout": 0.5, "absent": 30.0}
TWO: dict[str, Outcome] = {"tone": Score(value=0.5), "facts": Score(value=1.0)}
NOT_YET = DestinationError("no such trace", retryable=True, reason="trace_not_found")
WRONG = DestinationError("out of range", retryable=False, reason="out_of_range")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def key(evaluation: Evaluation) -> str:
    return f"{evaluation.trace_id}/{evaluation.scorer_id}"


class Picky:
    """Accepts what its function says nothing against; remembers what it was given and what it took."""

    name = "picky"

    def __init__(self, verdict: Callable[[Evaluation, int], DestinationError | None]) -> None:
        self._verdict = verdict
        self.seen: Counter[str] = Counter()
        self.taken: list[str] = []
        self.batches: list[list[str]] = []

    async def export(self, batch: Sequence[ScoredRun]) -> Sequence[Unaccepted]:
        evaluations = [e for scored in batch for e in scored.evaluations]
        self.batches.append([key(e) for e in evaluations])
        unaccepted = []
        for evaluation in evaluations:
            self.seen[key(evaluation)] += 1
            error = self._verdict(evaluation, self.seen[key(evaluation)])
            if error is None:
                self.taken.append(key(evaluation))
            else:
                unaccepted.append(Unaccepted(evaluation, error))
        return unaccepted

    async def shutdown(self) -> None:
        pass


async def deliver(destination: Picky, *runs: ScoredRun, **limits: Any) -> DestinationStats:
    fan_out = FanOut([destination], delay=0.0, **{**QUICK, **limits})
    async with anyio.create_task_group() as group:
        group.start_soon(fan_out.run)
        for run in runs:
            fan_out.put(run)
        with anyio.fail_after(20):
            await fan_out.force_flush(15.0)
        await fan_out.shutdown(1.0)
    return fan_out.stats()["picky"]


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(20):
        while not condition():  # noqa: ASYNC110 (there is no event for it)
            await anyio.sleep(0.005)


async def test_one_refused_score_is_counted_and_the_others_are_sent_once() -> None:
    picky = Picky(lambda e, _: WRONG if e.scorer_id == "tone" and e.trace_id.endswith("38") else None)
    runs = [scored_run(number, TWO) for number in range(5)]
    stats = await deliver(picky, *runs)
    assert stats == DestinationStats(
        exported=4, failed=1, losses={"out_of_range": 1}, lost_evaluations={"out_of_range": 1}
    )
    assert len(picky.taken) == 9
    assert set(picky.seen.values()) == {1}


async def test_a_trace_that_is_not_there_yet_is_tried_alone_until_it_is() -> None:
    picky = Picky(lambda e, n: NOT_YET if e.trace_id.endswith("36") and n < 12 else None)
    runs = [scored_run(number, TWO) for number in range(64)]
    stats = await deliver(picky, *runs)
    assert stats == DestinationStats(exported=64), "more tries than Retry.attempts: waiting is no failure"
    late = {key(e) for e in runs[0].evaluations}
    assert {picky.seen[each] for each in late} == {12}
    assert {count for each, count in picky.seen.items() if each not in late} == {1}


async def test_only_what_was_not_accepted_is_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    """Scores before their spans are nothing to warn of."""
    picky = Picky(lambda e, n: NOT_YET if e.scorer_id == "tone" and n == 1 else None)
    await deliver(picky, scored_run(0, TWO))
    tone, facts = (key(e) for e in scored_run(0, TWO).evaluations)
    assert picky.batches == [[tone, facts], [tone]]
    assert caplog.text == ""


async def test_a_trace_that_never_comes_is_given_up_by_name(caplog: pytest.LogCaptureFixture) -> None:
    stats = await deliver(Picky(lambda *_: NOT_YET), scored_run(0, TWO), first=0.01, longest=0.01, absent=0.2)
    assert stats == DestinationStats(
        failed=1, losses={"trace_not_found": 1}, lost_evaluations={"trace_not_found": 2}
    )
    assert caplog.text.count("no such trace") == 1


async def test_waiting_traces_do_not_starve_new_runs() -> None:
    """Far more than a batch waits, always due again at once."""
    picky = Picky(lambda e, _: NOT_YET if e.scorer_id == "tone" else None)
    fan_out = FanOut([picky], delay=0.0, batch_size=8, first=1e-4, longest=1e-4, absent=60.0)
    async with anyio.create_task_group() as group:
        group.start_soon(fan_out.run)
        for number in range(100):
            fan_out.put(scored_run(number, {"tone": Score(value=0.5)}))
        await anyio.sleep(0.05)
        new = [scored_run(number, {"facts": Score(value=0.5)}) for number in range(200, 240)]
        for run in new:
            fan_out.put(run)
        await until(lambda: fan_out.stats()["picky"].exported == 40)
        await fan_out.shutdown(0.2)
    assert fan_out.stats()["picky"].losses == {"shutdown": 100}


@pytest.mark.parametrize("kept", [False, True])
async def test_what_waits_is_bounded_and_the_oldest_gives_way(kept: bool) -> None:
    """Which loses it, unless it is kept to be put again."""
    picky = Picky(lambda *_: NOT_YET)
    fan_out = FanOut([picky], queue_size=2, delay=0.0, first=60, longest=60, draw=lambda: 1.0)
    async with anyio.create_task_group() as group:
        group.start_soon(fan_out.run)
        for number in range(20):
            fan_out.put(scored_run(number, TWO), kept=kept)
            await until(lambda: len(picky.seen) == 2 * number + 2)  # noqa: B023 (awaited here)
        await anyio.sleep(0.01)
        stats = fan_out.stats()["picky"]
        await fan_out.shutdown(0.1)
    assert (stats.pending, stats.losses) == (8, {} if kept else {"queue_full": 12})
    assert stats.lost_evaluations == ({} if kept else {"queue_full": 24})


async def test_a_wait_that_the_server_asks_for_parks_the_destination() -> None:
    """Longer than a batch may take in all: it is obeyed, and nothing is lost for it."""
    busy = DestinationError("slow down", retryable=True, retry_after=0.3, reason="rate_limited")
    at: list[float] = []

    def verdict(e: Evaluation, n: int) -> DestinationError | None:
        at.append(time.monotonic())
        return busy if e.scorer_id == "tone" and n == 1 else None

    stats = await deliver(Picky(verdict), scored_run(0, TWO), scored_run(1, TWO), first=0.01)
    assert stats == DestinationStats(exported=2)
    assert at[4] - at[3] >= 0.3


async def test_an_hour_s_wait_does_not_hold_a_flush_or_the_shutdown() -> None:
    busy = DestinationError("later", retryable=True, retry_after=3600.0)
    fan_out = FanOut([Picky(lambda *_: busy)], delay=0.0)
    async with anyio.create_task_group() as group:
        group.start_soon(fan_out.run)
        fan_out.put(scored_run(0, TWO))
        assert not await fan_out.force_flush(0.1)
        assert fan_out.stats()["picky"].pending == 1
        assert not await fan_out.shutdown(0.1)
    assert fan_out.stats()["picky"].losses == {"shutdown": 1}


FATES: Mapping[str, DestinationError | None] = {"taken": None, "not_yet": NOT_YET, "wrong": WRONG}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.lists(st.sampled_from(sorted(FATES)), min_size=1, max_size=3), max_size=20))
def test_every_run_ends_exactly_once_whatever_becomes_of_its_scores(fates: list[list[str]]) -> None:
    """Each evaluation has its fate, for good; what was accepted was accepted once."""
    numbers = itertools.count()
    runs = [scored_run(next(numbers), {f: Score(value=1.0) for f in set(each)}) for each in fates]
    picky = Picky(lambda e, n: None if e.scorer_id == "not_yet" and n > 2 else FATES[e.scorer_id])
    told: Counter[int] = Counter()
    ends: Counter[str] = Counter()

    def ended(_: str, deliveries: Sequence[PendingDelivery], end: str) -> None:
        told.update(id(each.scored) for each in deliveries)
        ends[end] += len(deliveries)

    async def send() -> DestinationStats:
        fan_out = FanOut([picky], delay=0.0, batch_size=3, first=1e-3, longest=1e-3, ended=ended)
        for run in runs:
            fan_out.put(run)
        assert await fan_out.shutdown(10.0)
        return fan_out.stats()["picky"]

    stats = anyio.run(send)
    wrong = sum("wrong" in each for each in fates)
    assert (stats.exported, stats.failed, stats.dropped, stats.pending) == (len(runs) - wrong, wrong, 0, 0)
    assert told == Counter(id(run) for run in runs)
    assert Counter(picky.taken) == Counter(
        key(e) for run in runs for e in run.evaluations if e.scorer_id != "wrong"
    )
