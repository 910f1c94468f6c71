"""The engine's thread: what is put is taken in order, off the caller's thread; nothing waits or raises."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.engine import thread as engine_thread
from otel_evals._internal.engine.thread import EngineThread
from otel_evals._internal.util.threads import OSThread
from tests.support.waits import SECONDS, eventually

FAR = 3_600.0
TOLD: contextvars.ContextVar[str] = contextvars.ContextVar("told", default="nothing")


class Taken:
    """Work that keeps what it takes, and in which context and thread each call came."""

    def __init__(self) -> None:
        self.batches: list[list[Any]] = []
        self.ticks: list[float] = []
        self.contexts: set[str] = set()
        self.threads: set[int] = set()
        self.delays: list[float] = []
        self.on_take: Callable[[], object] = lambda: None
        self.on_tick: Callable[[], object] = lambda: None
        self.cancelled = False
        self.left: list[Any] = []
        self._changed = threading.Condition()

    def take(self, items: Sequence[Any]) -> float:
        self._note()
        with self._changed:
            self.batches.append(list(items))
            self._changed.notify_all()
        self.on_take()
        return self.tick()

    def tick(self) -> float:
        self._note()
        with self._changed:
            self.ticks.append(time.monotonic())
            self._changed.notify_all()
        self.on_tick()
        return time.monotonic() + (self.delays.pop(0) if self.delays else FAR)

    async def background(self) -> None:
        self._note()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True

    def end(self, items: Sequence[Any]) -> None:
        self._note()
        self.left += items

    def _note(self) -> None:
        self.contexts.add(TOLD.get())
        self.threads.add(threading.get_ident())

    @property
    def items(self) -> list[Any]:
        return [item for batch in self.batches for item in batch]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(condition, SECONDS)


@contextmanager
def engine(**options: Any) -> Iterator[tuple[EngineThread, Taken]]:
    work = Taken()
    thread = EngineThread(work, **options)
    try:
        yield thread, work
    finally:
        thread.stop(SECONDS)
        assert not thread.alive


def blocked(thread: EngineThread) -> threading.Event:
    """Have the engine's thread wait until the event is set; returns once it does."""
    waits, release = threading.Event(), threading.Event()

    def wait() -> None:
        waits.set()
        release.wait(SECONDS)

    thread.call(wait)
    assert waits.wait(SECONDS)
    return release


# --- handing over ---


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 300), min_size=1, max_size=4))
def test_everything_is_taken_once_in_order_in_batches(sizes: list[int]) -> None:
    with engine() as (thread, work):
        numbers = iter(range(sum(sizes)))
        for size in sizes:
            for _ in range(size):
                thread.put(next(numbers))
        work.wait_for(lambda: len(work.items) == sum(sizes) or not sum(sizes))
        assert work.items == list(range(sum(sizes)))
        assert all(len(batch) <= 256 for batch in work.batches)
        assert thread.waiting == thread.backlog.refused == 0
        assert threading.get_ident() not in work.threads
        assert len(work.threads) == (1 if sum(sizes) else 0)


def test_what_comes_within_the_gathering_time_is_one_batch() -> None:
    with engine() as (thread, work):
        thread.call(lambda: [thread.put(number) for number in range(10)])  # at once, whatever else goes on
        work.wait_for(lambda: bool(work.batches))
        assert work.batches == [list(range(10))]


async def pumped(thread: EngineThread) -> None:
    thread._pump()


def test_runs_that_end_after_a_rest_are_taken_at_once_and_the_many_after_them_are_gathered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine_thread, "_GATHER_SECONDS", FAR)
    with engine() as (thread, work):
        thread.put("span")
        thread.run(pumped(thread), SECONDS)
        for number in range(31):
            thread.put("span")
            thread.run(asyncio.sleep(0), SECONDS)
            assert thread.waiting == 1
            thread.put(number, ends_run=True)
            work.wait_for(lambda number=number: work.items[-1:] == [number])  # type: ignore[misc]
        thread.put("one more", ends_run=True)
        thread.run(asyncio.sleep(0), SECONDS)
        assert thread.waiting == 1
        assert work.batches == [["span"], *(["span", number] for number in range(31))]


def test_nothing_starts_before_the_first_item() -> None:
    with engine() as (thread, work):
        assert not thread.started
        assert not thread.alive
        assert thread.beat is None
        thread.put(1)
        assert thread.started
        work.wait_for(lambda: bool(work.items))
        assert thread.alive
        assert thread.beat is not None


def test_a_thread_that_could_not_be_started_is_started_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What came in the meantime is taken too; the log says it once."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "otel-evals":
            raise RuntimeError("can't start new thread")
        start(thread)

    with engine() as (thread, work):
        monkeypatch.setattr(threading.Thread, "start", refuse)
        thread.put(1)
        thread.put(2)
        assert thread.run(asyncio.sleep(0), 1.0) is None
        assert not thread.started
        monkeypatch.setattr(threading.Thread, "start", start)
        eventually(lambda: (thread.put(3), thread.started)[1])
        work.wait_for(lambda: work.items[:2] == [1, 2] and 3 in work.items)
    assert len([r for r in caplog.records if "cannot be started" in r.message]) == 1


def test_a_caller_finds_the_thread_alive_while_another_is_still_starting_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = OSThread.start

    def start_slowly(thread: OSThread) -> None:
        start(thread)
        if thread.name == "otel-evals":
            taken.wait_for(lambda: bool(taken.ticks))
            time.sleep(0.2)

    monkeypatch.setattr(OSThread, "start", start_slowly)
    with engine() as (thread, taken):
        first = threading.Thread(target=thread.call, args=(lambda: None,))
        first.start()
        taken.wait_for(lambda: bool(taken.ticks))
        thread.call(lambda: None)
        assert thread.alive
        first.join()


def test_a_loop_that_could_not_be_had_is_made_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A loop needs open files, of which there may be too many for a while; nobody waits for it meanwhile."""
    make = asyncio.new_event_loop

    def refuse() -> asyncio.AbstractEventLoop:
        raise OSError(24, "Too many open files")

    with engine() as (thread, work):
        monkeypatch.setattr(asyncio, "new_event_loop", refuse)
        thread.put(1)
        assert thread.run(asyncio.sleep(0), 0.5) is None
        assert thread.unstartable
        monkeypatch.setattr(asyncio, "new_event_loop", make)
        eventually(lambda: (thread.put(2), thread.started and thread.alive)[1])
        work.wait_for(lambda: work.items[:1] == [1] and 2 in work.items)
    assert len([r for r in caplog.records if "cannot be started" in r.message]) == 1


def test_what_has_no_room_is_refused_and_counted() -> None:
    with engine(capacity=3) as (thread, work):
        release = blocked(thread)
        for number in range(10):
            thread.put(number)
        assert (thread.waiting, thread.backlog.refused) == (3, 7)
        release.set()
        work.wait_for(lambda: len(work.items) == 3)
        assert work.items == [0, 1, 2]


def test_what_belongs_together_is_put_as_a_whole() -> None:
    with engine(capacity=3) as (thread, work):
        release = blocked(thread)
        thread.put_all(range(5))
        thread.put(5)
        assert (thread.waiting, thread.level.capacity, thread.backlog.refused) == (5, 0, 1)
        release.set()
        work.wait_for(lambda: work.items == [0, 1, 2, 3, 4])
        assert thread.level.capacity == 3


def test_a_batch_that_cannot_be_handled_costs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    with engine() as (thread, work):
        errors = iter([RuntimeError("bad batch")])

        def fail_once() -> None:
            for error in errors:
                raise error

        work.on_take = fail_once
        thread.put("bad")
        work.wait_for(lambda: work.items == ["bad"])
        thread.put("good")
        work.wait_for(lambda: work.items == ["bad", "good"])
    assert [str(r.exc_info[1]) for r in caplog.records if r.exc_info] == ["bad batch"]


# --- contexts ---


def test_a_callers_context_never_reaches_the_work() -> None:
    """Whoever starts the thread, wakes it, has it run or drain something: suppression, or a span, of theirs
    would otherwise hold for everybody's runs.
    """
    token = TOLD.set("the caller")
    try:
        with engine() as (thread, work):
            thread.put(1)
            work.wait_for(lambda: len(work.items) == 1)
            found: list[str] = []
            thread.call(lambda: found.append(TOLD.get()))

            async def flush() -> str:
                thread.put(2)
                thread.drain()
                await asyncio.sleep(0)
                return TOLD.get()

            work.delays = [0.001, 0.001]
            found.append(str(thread.run(flush(), SECONDS)))
            ticks = len(work.ticks)
            work.wait_for(lambda: len(work.ticks) > ticks)  # one that the drained tick has scheduled
            assert found == ["nothing", "nothing"]
            assert work.contexts == {"nothing"}
            assert TOLD.get() == "the caller"
    finally:
        TOLD.reset(token)


def test_what_the_work_gives_to_threads_keeps_the_context_of_the_work() -> None:
    """What a scorer calls in a thread stays marked as ours."""
    with engine() as (thread, _):

        async def ask() -> str:
            TOLD.set("a scorer")
            return await asyncio.get_running_loop().run_in_executor(None, TOLD.get)

        assert thread.run(ask(), SECONDS) == "a scorer"


# --- ticks ---


def test_ticks_come_when_they_are_due_and_after_each_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only when an idle loop turns in any case."""
    monkeypatch.setattr(engine_thread, "_IDLE_SECONDS", 600.0)
    with engine() as (thread, work):
        work.delays = [0.03] * 5
        thread.put(1)
        work.wait_for(lambda: not work.delays)
        ticks = len(work.ticks)
        thread.put(2)
        work.wait_for(lambda: len(work.ticks) > ticks)
        assert work.items == [1, 2]


def test_a_tick_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture) -> None:
    with engine() as (thread, work):
        errors = iter([RuntimeError("bad tick")])

        def fail_once() -> None:
            for error in errors:
                raise error

        work.on_tick = fail_once
        thread.put(1)
        work.wait_for(lambda: len(work.ticks) >= 1)
        thread.put(2)
        work.wait_for(lambda: len(work.batches) == 2 and len(work.ticks) >= 2)
    assert [str(r.exc_info[1]) for r in caplog.records if r.exc_info] == ["bad tick"]


# --- running something on it ---


def test_a_coroutine_runs_on_the_thread_and_its_result_comes_back() -> None:
    with engine() as (thread, _):

        async def where() -> tuple[int, bool]:
            return threading.get_ident(), thread.here

        ident, here = thread.run(where(), SECONDS) or (0, False)
        assert here
        assert ident != threading.get_ident()
        assert not thread.here


def test_what_does_not_finish_in_time_is_cancelled() -> None:
    with engine() as (thread, _):
        begun, cancelled = threading.Event(), threading.Event()

        async def hang() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()

        async def nothing() -> int:
            return 1

        assert thread.run(hang(), 0.05) is None
        assert thread.run(nothing(), SECONDS) == 1
        assert not begun.is_set() or cancelled.wait(SECONDS)


def test_what_a_coroutine_raises_comes_back() -> None:
    with engine() as (thread, _):

        async def fail() -> None:
            raise KeyError("x")

        with pytest.raises(KeyError):
            thread.run(fail(), SECONDS)


def test_on_the_thread_itself_nothing_can_be_waited_for() -> None:
    """It would wait for itself."""
    with engine() as (thread, _):

        async def nothing() -> int:
            return 1

        async def outer() -> Any:
            return thread.run(nothing(), SECONDS), "not run"

        assert thread.run(outer(), SECONDS) == (None, "not run")


# --- the end ---


def test_after_a_stop_everything_is_refused_and_nothing_raises() -> None:
    work = Taken()
    thread = EngineThread(work)
    thread.put(1)
    work.wait_for(lambda: bool(work.items))
    thread.stop(SECONDS)
    assert work.cancelled
    assert (thread.started, thread.alive) == (True, False)
    thread.put(2)
    thread.call(lambda: work.items.append("called"))

    async def nothing() -> int:
        return 1

    assert thread.run(nothing(), SECONDS) is None
    thread.stop(SECONDS)
    assert (thread.waiting, thread.backlog.refused, work.items) == (0, 1, [1])


def test_a_thread_that_has_just_started_can_be_stopped() -> None:
    """Its loop need not run yet. What was put is then taken, or counted as refused."""
    for _ in range(20):
        work = Taken()
        thread = EngineThread(work)
        thread.put(1)
        thread.stop(SECONDS)
        assert not thread.alive
        assert (thread.waiting, len(work.items) + thread.backlog.refused) == (0, 1)


def test_one_that_never_started_can_be_stopped() -> None:
    thread = EngineThread(Taken())
    thread.stop(SECONDS)
    thread.put(1)
    assert (thread.started, thread.backlog.refused) == (False, 1)


def test_what_waits_when_a_busy_thread_ends_is_counted() -> None:
    with engine() as (thread, work):
        release = blocked(thread)
        thread.put(1)
        thread.stop(0.05)
        assert thread.alive, "it is busy: it ends when it can"
        release.set()
        eventually(lambda: (thread.stop(0.05), not thread.alive)[1])
    assert len(work.items) + thread.backlog.refused == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_has_a_thread_of_its_own() -> None:
    """What waited in the parent stays the parent's."""
    with engine() as (thread, work):
        thread.put("before")
        work.wait_for(lambda: bool(work.items))
        release = blocked(thread)
        thread.put("waits")
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            answer = b"failed"
            try:
                thread.reset()
                own = Taken()
                thread._work = own
                thread.put("in the child")
                own.wait_for(lambda: bool(own.items))
                answer = repr((own.items, thread.alive, thread.backlog.refused)).encode()
            finally:
                os.write(writing, answer)
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            assert pipe.read() == b"(['in the child'], True, 0)"
        os.waitpid(pid, 0)
        release.set()
        work.wait_for(lambda: work.items == ["before", "waits"])
