"""Late spans: gathered by trace for a moment, and within bounds, then given to their run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from otel_evals._internal.durable_queue.late_spans import Late, LateSpans, add_late, run_of
from otel_evals._internal.durable_queue.stored_run import StoredRun
from otel_evals.model import SpanRecord


def span(number: int, parent: int | None = None, trace: int = 1) -> SpanRecord:
    above = None if parent is None else f"{parent:016x}"
    return SpanRecord(trace_id=f"{trace:032x}", span_id=f"{number:016x}", parent_span_id=above)


def test_spans_of_a_trace_are_handed_on_together() -> None:
    async def body() -> list[tuple[str, Sequence[Late]]]:
        joined: list[tuple[str, Sequence[Late]]] = []
        both = asyncio.Event()

        def join(trace_id: str, late: Sequence[Late]) -> None:
            joined.append((trace_id, late))
            if len(joined) == 2:
                both.set()

        spans = LateSpans(join, 10**9)
        assert spans.take(span(1), None)
        assert spans.take(span(9, trace=2), "8" * 16)
        assert spans.take(span(2, 1), None)
        assert joined == []
        async with asyncio.timeout(5):
            await both.wait()
        return joined

    assert asyncio.run(body()) == [
        (f"{1:032x}", [(span(1), None), (span(2, 1), None)]),
        (f"{2:032x}", [(span(9, trace=2), "8" * 16)]),
    ]


def test_no_more_are_held_than_fit() -> None:
    async def body() -> None:
        spans = LateSpans(lambda *_: None, 10**9)
        taken = [spans.take(span(number, trace=number), None) for number in range(1, 10_003)]
        assert taken.count(True) == 10_000
        assert not any(taken[10_000:])

    asyncio.run(body())


def test_they_belong_to_the_run_that_has_their_parent_or_nearest_ancestor() -> None:
    first, second = (StoredRun(f"{1:032x}", (span(n),), {}) for n in (10, 20))
    runs = [first, second]
    assert run_of(runs, [(span(11, 10), None)]) is first
    assert run_of(runs, [(span(21, 99), f"{20:016x}")]) is second
    assert run_of(runs, [(span(20), None)]) is second, "one that comes twice"
    assert run_of(runs, [(span(31, 30), None)]) is None


def test_they_count_once_the_run_is_scored_and_keep_their_links() -> None:
    run = StoredRun(f"{1:032x}", (span(10),), {"x": "y"})
    add_late(run, [(span(11, 10), f"{10:016x}"), (span(12, 99), f"{10:016x}")])
    assert [each.span_id for each in run.late] == [f"{11:016x}", f"{12:016x}"]
    assert run.links == {"x": "y", f"{12:016x}": f"{10:016x}"}
    assert run.spans == (span(10),)
