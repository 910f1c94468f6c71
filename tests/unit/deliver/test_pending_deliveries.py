"""Pending deliveries: the capacity that they report is there."""

from __future__ import annotations

from otel_evals._internal.deliver.pending_deliveries import PendingDeliveries, PendingDelivery
from otel_evals._internal.model.runs import size_of_run
from otel_evals.model import ScoredRun
from tests.support.trace_builder import run_of, span


def test_as_many_runs_as_there_is_room_for_overflow_neither_number_nor_bytes() -> None:
    run = run_of(span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}))
    scored, size = ScoredRun(run=run), size_of_run(run)
    assert size > 0
    pending = PendingDeliveries(queue_size=1_000, parked_size=1_000, max_bytes=100 * size)
    pending.put(PendingDelivery(scored, scored, kept=False))
    while (capacity := pending.capacity) > 0:
        for number in range(capacity):
            assert not pending.full, f"{number} of {capacity} fit"
            pending.put(PendingDelivery(scored, scored, kept=False))
    assert len(pending) > 90
