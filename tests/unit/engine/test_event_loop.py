"""The engine's loop runs until its main coroutine ends, whatever other tasks raise."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from anyio import to_thread

from otel_evals._internal.engine.event_loop import new_loop, run, run_to_the_end
from otel_evals._internal.util.calls import hide_task
from tests.support.waits import SECONDS


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_a_task_that_would_end_the_program_does_not_end_the_loop(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    ends: list[str] = []

    async def fails() -> None:
        raise error

    async def main() -> None:
        for _ in range(3):
            try:
                await asyncio.ensure_future(fails())
            except error:
                ends.append("told")
        ends.append("done")

    with new_loop() as loop, caplog.at_level(logging.WARNING):
        run_to_the_end(loop, main())
    assert ends == ["told"] * 3 + ["done"]
    assert len(caplog.records) == 1, "the first one is logged"


def test_worker_threads_serve_many_tasks_and_end_with_the_loop() -> None:
    used: list[threading.Thread] = []

    async def main() -> None:
        for _ in range(20):
            used.append(await asyncio.ensure_future(to_thread.run_sync(threading.current_thread)))
            assert asyncio.current_task() not in asyncio.all_tasks()

    with new_loop() as loop:
        run_to_the_end(loop, main())
    (worker,) = set(used)
    worker.join(SECONDS)
    assert not worker.is_alive()


def test_the_end_does_not_wait_for_what_refuses_to_end(caplog: pytest.LogCaptureFixture) -> None:
    class Held:
        """What a task holds on to."""

    held = Held()
    kept, ends = weakref.ref(held), list[str]()

    async def refuses(_: Held) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(600)

    async def cleans_up() -> None:
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)
            ends.append("cleaned up")
            raise SystemExit

    async def endless() -> AsyncIterator[int]:
        try:
            while True:
                yield 1
        finally:
            await asyncio.sleep(600)

    async def main(held: Held) -> str:
        tasks = [asyncio.ensure_future(each) for each in (refuses(held), cleans_up())]
        async for _ in (generator := endless()):
            break
        await asyncio.sleep(0.01)
        assert tasks
        assert generator
        return "done"

    assert run(main(held)) == "done"
    assert ends == ["cleaned up"]
    del held
    gc.collect()
    assert kept() is None, "a task that refuses to end keeps nothing"
    assert [record.name for record in caplog.records] == ["otel_evals._internal.engine.event_loop"], (
        "of the SystemExit"
    )


def test_hidden_tasks_end_with_their_loop() -> None:
    ended = []

    async def forever() -> None:
        hide_task(asyncio.current_task())
        try:
            await asyncio.sleep(3_600)
        finally:
            ended.append(asyncio.get_running_loop())

    with new_loop() as loop:
        task = loop.create_task(forever())
        loop.run_until_complete(asyncio.sleep(0))
    assert ended == [loop]
    assert task.cancelled()
