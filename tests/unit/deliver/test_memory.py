"""The in-memory destination: what a test sees of the pipeline."""

from __future__ import annotations

import threading

import anyio
import pytest

from otel_evals.testing import InMemoryDestination
from tests.support.scored import OUTCOMES, scored_run


def test_runs_and_evaluations_are_kept_in_order() -> None:
    memory = InMemoryDestination()
    anyio.run(memory.export, [scored_run(0), scored_run(1)])
    anyio.run(memory.shutdown)
    assert memory.runs == (scored_run(0), scored_run(1))
    assert [e.scorer_id for e in memory.evaluations] == list(OUTCOMES) * 2
    memory.clear()
    assert not memory.runs


def test_a_thread_can_wait_for_runs_to_come() -> None:
    memory = InMemoryDestination()
    engine = threading.Timer(0.05, anyio.run, (memory.export, [scored_run()]))
    engine.start()
    assert memory.wait_for(1) == (scored_run(),)
    engine.join()


def test_waiting_ends_with_what_is_missing() -> None:
    with pytest.raises(TimeoutError, match=r"^0 of 2 scored runs arrived in 0.01 s$"):
        InMemoryDestination().wait_for(2, timeout=0.01)
