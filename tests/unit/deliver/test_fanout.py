"""FanOut: every destination gets every run, none waits for another, and every run is accounted for."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.deliver.pending_deliveries import PendingDelivery
from otel_evals._internal.redaction.redactor import Redaction, use_redaction
from otel_evals.destinations import (
    ConsoleDestination,
    DestinationStats,
    JsonlDestination,
    Unaccepted,
)
from otel_evals.errors import DestinationError
from otel_evals.model import ScoredRun
from otel_evals.testing import InMemoryDestination
from tests.support.scored import scored_run

pytestmark = pytest.mark.anyio
QUICK: dict[str, Any] = {"attempts": 4, "first": 0.01, "longest": 0.02, "timeout": 0.5}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


Ended = tuple[str, Sequence[ScoredRun], str]


def noting(ended: list[Ended]) -> Callable[[str, Sequence[PendingDelivery], str], object]:
    return lambda name, deliveries, end: ended.append((name, [each.scored for each in deliveries], end))


class Scripted(InMemoryDestination):
    """Does what the script says for each call, then accepts."""

    def __init__(self, name: str, *script: Exception | Callable[[], object] | None) -> None:
        super().__init__()
        self.name = name
        self.script = list(script)
        self.sizes: list[int] = []
        self.at: list[float] = []
        self.shutdowns = 0

    async def export(self, batch: Sequence[ScoredRun]) -> None:
        self.sizes.append(len(batch))
        self.at.append(time.monotonic())
        match self.script.pop(0) if self.script else None:
            case Exception() as error:
                raise error
            case None:
                pass
            case act:
                await act()  # type: ignore[misc]  # scripts are coroutine functions
        await super().export(batch)

    async def shutdown(self) -> None:
        self.shutdowns += 1


async def forever() -> None:
    await anyio.sleep_forever()


@asynccontextmanager
async def running(fan_out: FanOut, deadline: float = 1.0) -> AsyncIterator[FanOut]:
    async with anyio.create_task_group() as group:
        group.start_soon(fan_out.run)
        yield fan_out
        await fan_out.shutdown(deadline)


def held(stats: DestinationStats) -> int:
    return stats.exported + stats.failed + stats.dropped + stats.pending


async def test_every_destination_gets_every_run_in_batches_that_wait_no_longer_than_the_delay() -> None:
    one, two = Scripted("one"), Scripted("two")
    async with running(FanOut([one, two], batch_size=4, delay=0.05)) as fan_out:
        start = time.monotonic()
        for number in range(10):
            fan_out.put(scored_run(number))
        await anyio.to_thread.run_sync(two.wait_for, 10)
    assert one.runs == two.runs == tuple(scored_run(number) for number in range(10))
    assert one.sizes == [4, 4, 2]
    assert 0.05 <= one.at[2] - start < 5.0
    assert fan_out.stats()["one"] == DestinationStats(exported=10)


async def test_force_flush_does_not_wait_for_the_delay() -> None:
    destination = Scripted("one")
    async with running(FanOut([destination], delay=30.0)) as fan_out:
        fan_out.put(scored_run())
        assert await fan_out.force_flush(1.0)
        assert len(destination.runs) == 1


async def test_tries_are_limited() -> None:
    destination = Scripted("one", *[OSError("gone")] * 9)
    async with running(FanOut([destination], delay=0.0, **QUICK)) as fan_out:
        fan_out.put(scored_run())
        assert not await fan_out.force_flush(1.0)
    assert len(destination.sizes) == 4
    assert fan_out.stats()["one"].losses == {"OSError": 1}


async def test_a_try_that_takes_too_long_is_given_up_and_repeated() -> None:
    destination = Scripted("one", forever)
    retry: dict[str, Any] = {"first": 0.01, "timeout": 0.05}
    async with running(FanOut([destination], delay=0.0, **retry)) as fan_out:
        fan_out.put(scored_run())
        assert await fan_out.force_flush(1.0)
    assert destination.sizes == [1, 1]


class SlowAtFirst(io.StringIO):
    """A file whose first write waits until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def write(self, text: str) -> int:
        self.released.wait(10.0)
        return super().write(text)


@pytest.mark.parametrize("name", ["jsonl", "console"])
async def test_work_on_a_thread_that_outlasts_the_timeout_is_not_repeated(name: str, tmp_path: Path) -> None:
    path, file = tmp_path / "scores.jsonl", SlowAtFirst()

    def slowly(text: str) -> str:
        file.released.wait(10.0)
        return text

    if name == "jsonl":
        use_redaction(Redaction((slowly,)))  # which JSONL calls on its thread
    destination = JsonlDestination(path) if name == "jsonl" else ConsoleDestination(file=file)
    retry: dict[str, Any] = {"first": 0.01, "longest": 0.01, "timeout": 0.05}
    async with running(FanOut([destination], delay=0.0, **retry)) as fan_out:
        fan_out.put(scored_run())
        while not fan_out.failing():  # noqa: ASYNC110  (read from any thread)
            await anyio.sleep(0.01)
        await anyio.sleep(0.1)  # many times the wait before another attempt
        file.released.set()
        assert await fan_out.force_flush(10.0)
        assert not fan_out.failing()
        assert fan_out.stats()[name] == DestinationStats(exported=1)
    written = path.read_text() if name == "jsonl" else file.getvalue()
    assert written.count("It ships on Monday") == 1


async def test_the_wait_a_destination_asks_for_is_honoured_even_while_flushing() -> None:
    destination = Scripted("one", DestinationError("busy", retryable=True, retry_after=0.15))
    async with running(FanOut([destination], delay=0.0, **QUICK)) as fan_out:
        fan_out.put(scored_run())
        assert await fan_out.force_flush(1.0)
    assert destination.at[1] - destination.at[0] >= 0.15


async def test_a_flush_cuts_long_back_offs_short() -> None:
    destination = Scripted("one", *[OSError("gone")] * 7)
    retry: dict[str, Any] = {"attempts": 9, "first": 0.02, "longest": 60.0}
    async with running(FanOut([destination], delay=0.0, **retry, draw=lambda: 1.0)) as fan_out:
        fan_out.put(scored_run())
        # The waits would add up to 2.5 s.
        assert await fan_out.force_flush(1.0)
    assert len(destination.sizes) == 8


async def test_a_full_queue_loses_no_run_that_is_kept_and_put_again() -> None:
    gate = anyio.Event()
    ends: list[Ended] = []
    fan_out = FanOut([Scripted("one", gate.wait)], queue_size=2, batch_size=1, delay=0.0, ended=noting(ends))
    async with running(fan_out):
        runs = [scored_run(number) for number in range(9)]
        for run in runs:
            fan_out.put(run, kept=True)
        refused = [run for _, batch, end in ends for run in batch if end == "queue_full"]
        assert refused == runs[2:]
        gate.set()
        while refused:
            assert await fan_out.force_flush(5.0)
            for run in refused[:2]:
                fan_out.put(run, kept=True)
            del refused[:2]
        assert await fan_out.force_flush(5.0)
        assert fan_out.stats()["one"] == DestinationStats(exported=9)


async def test_a_run_that_is_kept_is_no_loss_until_its_destination_refuses_it() -> None:
    down, refused = OSError("down"), DestinationError("no", retryable=False, reason="refused")
    ended: list[Ended] = []
    destination = Scripted("one", down, down, None, refused, down, forever)
    retry: dict[str, Any] = {"attempts": 2, "first": 0.001}
    async with running(FanOut([destination], delay=0.0, **retry, ended=noting(ended)), 0.2) as fan_out:
        for accepted in (False, True, False):
            fan_out.put(scored_run(), kept=True)
            assert await fan_out.force_flush(5.0) is accepted
        fan_out.put(scored_run(), kept=True)  # is sent for a second time when all ends
        while len(destination.sizes) < 6:  # noqa: ASYNC110
            await anyio.sleep(0.01)
    ends = [end for _, _, end in ended]
    assert ends == ["OSError", "exported", "refused", "shutdown"]
    stats = fan_out.stats()["one"]
    assert (stats.exported, stats.losses, stats.pending) == (1, {"refused": 1}, 0)
    assert stats.lost_evaluations == {"refused": len(scored_run().evaluations)}


async def test_what_is_being_written_at_the_deadline_counts_as_written() -> None:
    began = anyio.Event()

    async def write() -> None:
        began.set()
        for _ in range(20):
            await anyio.lowlevel.checkpoint()

    slow = Scripted("slow", write)
    fan_out = FanOut([slow], **QUICK, delay=0.0)
    async with anyio.create_task_group() as group:
        group.start_soon(fan_out.run)
        fan_out.put(scored_run())
        await began.wait()
        assert await fan_out.shutdown(0.0)
    assert (fan_out.stats()["slow"].exported, len(slow.runs)) == (1, 1)


async def test_what_is_on_its_way_at_the_end_is_told_as_lost() -> None:
    destination = Scripted("one", anyio.sleep_forever)
    ended: list[Ended] = []
    fan_out = FanOut([destination], batch_size=1, delay=0.0, ended=noting(ended))
    async with running(fan_out):
        for number in range(3):
            fan_out.put(scored_run(number))
        await anyio.sleep(0.01)
        assert not await fan_out.shutdown(0.2)
    assert [(end, len(batch)) for _, batch, end in ended] == [("shutdown", 3)]
    assert fan_out.stats()["one"].losses == {"shutdown": 3}


async def test_a_destination_that_refuses_is_failing_until_it_accepts() -> None:
    destination = Scripted("one", DestinationError("full", retryable=True))
    async with running(FanOut([destination], delay=0.0, first=0.5, draw=lambda: 0.9)) as fan_out:
        fan_out.put(scored_run(0))
        await anyio.sleep(0.01)
        assert fan_out.failing() == ("one",)
        assert await fan_out.force_flush(1.0)
        assert fan_out.failing() == ()


async def test_shutdown_delivers_what_it_can_and_later_runs_are_counted() -> None:
    destination = Scripted("one")
    async with running(FanOut([destination], delay=30.0)) as fan_out:
        fan_out.put(scored_run(0))
        assert await fan_out.shutdown(1.0)
        fan_out.put(scored_run(1))
    assert destination.shutdowns == 1
    assert fan_out.stats()["one"] == DestinationStats(
        exported=1, dropped=1, losses={"shutdown": 1}, lost_evaluations={"shutdown": 5}
    )


async def test_what_is_in_hand_is_counted_when_the_task_is_cancelled() -> None:
    fan_out = FanOut([Scripted("one", forever)], batch_size=2, delay=0.0)
    async with anyio.create_task_group() as group:
        group.start_soon(fan_out.run)
        for number in range(5):
            fan_out.put(scored_run(number))
        await anyio.sleep(0.02)
        group.cancel_scope.cancel()
    assert fan_out.stats()["one"] == DestinationStats(
        dropped=5, losses={"shutdown": 5}, lost_evaluations={"shutdown": 25}
    )


async def test_an_error_at_shutdown_is_logged_and_spares_the_others(caplog: pytest.LogCaptureFixture) -> None:
    class Bad(Scripted):
        async def shutdown(self) -> None:
            raise RuntimeError("cannot close")

    good = Scripted("good")
    async with running(FanOut([Bad("bad"), good])):
        pass
    assert good.shutdowns == 1
    assert "Destination bad failed to shut down" in caplog.text


async def test_destinations_of_one_name_are_told_apart() -> None:
    assert list(FanOut([Scripted("jsonl"), Scripted("jsonl")]).stats()) == ["jsonl", "jsonl-2"]


async def test_a_destination_s_own_client_is_not_instrumented() -> None:
    seen: list[bool] = []

    async def look() -> None:
        seen.append(is_instrumentation_enabled())

    async with running(FanOut([Scripted("one", look)], delay=0.0)) as fan_out:
        fan_out.put(scored_run())
        await fan_out.force_flush(1.0)
    assert seen == [False]
    assert is_instrumentation_enabled()


FATES: dict[str, Exception | Callable[[], object] | None] = {
    "accept": None,
    "busy": DestinationError("busy", retryable=True),
    "refuse": DestinationError("refused", retryable=False),
    "fail": RuntimeError("odd"),
    "hang": forever,
}


@settings(max_examples=30, deadline=None)
@given(
    fates=st.lists(st.sampled_from(sorted(FATES)), max_size=12),
    bursts=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    queue_size=st.integers(1, 8),
    batch_size=st.integers(1, 5),
)
def test_every_run_is_in_exactly_one_place_at_every_moment(
    fates: list[str], bursts: list[int], queue_size: int, batch_size: int
) -> None:
    async def deliver() -> None:
        destination = Scripted("one", *[FATES[fate] for fate in fates])
        retry: dict[str, Any] = {"attempts": 3, "first": 0.001, "longest": 0.002, "timeout": 0.01}
        fan_out = FanOut([destination], queue_size=queue_size, batch_size=batch_size, delay=0.001, **retry)
        total = 0
        async with running(fan_out, deadline=1.0):
            for burst in bursts:
                for _ in range(burst):
                    fan_out.put(scored_run(total))
                    total += 1
                    assert held(fan_out.stats()["one"]) == total
                await anyio.sleep(0.001)
        stats = fan_out.stats()["one"]
        assert (held(stats), stats.pending) == (total, 0)
        assert stats.exported == len(destination.runs)
        assert sum(stats.losses.values()) == stats.failed + stats.dropped

    anyio.run(deliver)


def waiting(seconds: Any) -> DestinationError:
    return DestinationError("odd", retryable=True, retry_after=seconds)


ODD: dict[str, Callable[[Sequence[ScoredRun]], Any]] = {
    "not a number": lambda batch: waiting(float("nan")),
    "a wait before now": lambda batch: waiting(-1e30),
    "another's evaluation": lambda batch: [Unaccepted(scored_run(99).evaluations[0], waiting(None))],
    "a text": lambda batch: "sent",
}


@pytest.mark.parametrize("how", ODD)
async def test_whatever_a_destination_answers_every_run_ends_and_the_next_is_sent(how: str) -> None:
    class Odd(InMemoryDestination):
        name = "odd"
        tries = 0

        async def export(self, batch: Sequence[ScoredRun]) -> Any:
            self.tries += 1
            if self.tries == 1:
                answer = ODD[how](batch)
                if isinstance(answer, Exception):
                    raise answer
                return answer
            return await super().export(batch)

    odd = Odd()
    fan_out = FanOut([odd], delay=0.0, **QUICK)
    async with anyio.create_task_group() as group:
        group.start_soon(fan_out.run)
        fan_out.put(scored_run(0))
        await fan_out.force_flush(20.0)
        fan_out.put(scored_run(1))
        await fan_out.force_flush(20.0)
        stats = fan_out.stats()["odd"]
        await fan_out.shutdown(5.0)
    assert stats.exported + stats.failed == 2
    assert [each.run.trace_id for each in odd.runs][-1:] == [scored_run(1).run.trace_id]
