"""Calls of users' functions: where they run, and which threads are left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextvars import ContextVar
from functools import partial, wraps
from typing import Any

import pytest

from otel_evals._internal.util.calls import AbandonedThreads, abandoned_threads, call
from tests.support.waits import SECONDS

TOLD: ContextVar[str] = ContextVar("told", default="")


def where(value: int) -> tuple[int, int]:
    return value, threading.get_ident()


async def where_async(value: int) -> tuple[int, int]:
    return where(value)


class Callable_:
    async def __call__(self, value: int) -> tuple[int, int]:
        return where(value)


@wraps(where_async)
def wrapped(value: int) -> Any:
    return where_async(value)


def gives_awaitable(value: int) -> Any:
    return where_async(value)


@pytest.mark.parametrize(
    ("function", "inline", "here"),
    [
        (where, False, False),
        (where, True, True),
        (partial(where), False, False),
        (where_async, False, True),
        (Callable_(), False, True),
        (wrapped, False, True),
        (gives_awaitable, False, True),
    ],
)
def test_sync_functions_run_in_a_thread_and_async_ones_on_the_loop(
    function: Callable[[int], Any], inline: bool, here: bool
) -> None:
    value, ident = asyncio.run(call(function, 7, inline=inline))
    assert value == 7
    assert (ident == threading.get_ident()) == here


def test_a_thread_has_the_callers_context_and_gives_back_what_was_raised() -> None:
    def fail(_: object) -> None:
        raise KeyError(TOLD.get())

    async def body() -> None:
        TOLD.set("the caller")
        with pytest.raises(KeyError, match="the caller"):
            await call(fail, None)

    asyncio.run(body())


class Blocks:
    """A function that waits to be released; knows how many are inside."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.began, self.ended = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, _: object) -> None:
        self.began.release()
        self.release.wait(SECONDS)
        self.ended.release()


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_only_threads_that_still_run_are_abandoned_and_only_until_they_end() -> None:
    """A call that was cancelled while it waited for a thread has left none behind."""

    async def body() -> None:
        counted, blocks = AbandonedThreads(limit=2), Blocks()
        abandoned_threads.set(counted)
        running = [asyncio.ensure_future(call(blocks, None)) for _ in range(2)]
        for _ in running:
            assert await asyncio.to_thread(blocks.began.acquire, timeout=SECONDS)
        waiting = [asyncio.ensure_future(call(blocks, None)) for _ in range(5)]
        await asyncio.sleep(0)
        assert len(counted.calls) == 0, "nobody has left yet"
        for task in waiting:
            await cancelled(task)
        assert len(counted.calls) == 0
        for number, task in enumerate(running, 1):
            await cancelled(task)
            assert len(counted.calls) == number
        blocks.release.set()
        async with asyncio.timeout(SECONDS):
            while len(counted.calls):  # noqa: ASYNC110  # a thread changes it
                await asyncio.sleep(0.001)
        assert counted.slots.borrowed_tokens == 0

    asyncio.run(body())


def test_calls_that_end_by_themselves_are_never_abandoned() -> None:
    async def body() -> None:
        counted = AbandonedThreads(limit=3)
        abandoned_threads.set(counted)
        results = await asyncio.gather(*(call(where, number) for number in range(20)))
        assert [value for value, _ in results] == list(range(20))
        assert len(counted.calls) == 0

    asyncio.run(body())
