"""The socket of the store: its default keeps nothing, and whoever asks it goes on as without one."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from otel_evals import Rule, scorer
from otel_evals._internal.accounting.counters import StoreStats
from otel_evals._internal.durable_queue.sqlite_queue import SQLiteQueue
from otel_evals._internal.evaluate.queue_interface import ConversationState, DurableQueue, KeptRun
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals.model import Dropped, SpanRecord
from tests.support.jobs import a_job
from tests.support.runs import a_run
from tests.support.scored import scored_run


@scorer(id="a", version="1")
def a(run: object) -> float:
    return 1.0


def test_the_default_takes_nothing_and_delivers_nothing() -> None:
    store, job = DurableQueue(), a_job(Rule(a))
    span = SpanRecord(trace_id="1" * 32, span_id="2" * 16)
    assert not store.keeps
    store.start()
    store.root_ended("2" * 16, SpanGroup((span,), {}))
    store.keep(SpanGroup((span,), {}), [job])
    store.add(job)
    assert not store.defer(job, Dropped(reason="queue_full"))
    assert not store.deliver(job.target)
    assert not store.take_late(span, None)
    store.delivered("memory", [scored_run()], "exported")
    state = ConversationState({"a": 1}, ("a",))
    kept = store.keep_for_conversation(a_run(), state)
    assert isinstance(kept, KeptRun)
    store.note_conversation(kept, state)
    store.forget_conversation([kept])
    assert store.stats() == StoreStats()


def test_the_default_has_nothing_to_wait_for() -> None:
    async def body() -> None:
        store = DurableQueue()
        async with asyncio.timeout(1):
            await store.all_sent(100.0)
            assert await store.flush(100.0)
            await store.prepare_shutdown(100.0)
            await store.close(100.0)

    asyncio.run(body())
    store = DurableQueue()
    store.before_fork()
    store.after_fork_in_parent()
    store.after_fork_in_child()


METHODS = [
    name
    for name, _ in inspect.getmembers(DurableQueue, inspect.isfunction)
    if not name.startswith("_") and name != "pass_on"  # a file is for the conversations of this process
]


@pytest.mark.parametrize("name", METHODS)
def test_a_store_that_keeps_something_overrides_everything(name: str) -> None:
    assert getattr(SQLiteQueue, name) is not getattr(DurableQueue, name)
    ours, default = (inspect.signature(getattr(c, name)).parameters for c in (SQLiteQueue, DurableQueue))
    assert list(ours) == list(default)
