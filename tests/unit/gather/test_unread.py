"""At the end open runs are counted once, wherever their spans are."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, TraceFlags

from otel_evals._internal.capture.items import CapturedSpan
from otel_evals._internal.gather.gatherer import AssemblyLimits
from otel_evals._internal.gather.local_gatherer import LocalGatherer
from otel_evals.model import Loss

LIMITS = AssemblyLimits(grace=0.5, max_age=600.0, max_traces=99, max_spans_per_trace=99, max_bytes=10**6)


def ended(trace: int, span: int, parent: int = 0, owner: int = 0) -> CapturedSpan:
    """A claimed span that ended below `owner`."""
    context, above = (
        SpanContext(trace, each, is_remote=False, trace_flags=TraceFlags(1)) for each in (span, parent)
    )
    return CapturedSpan(ReadableSpan("s", context, parent=above if parent else None), owner)


def at_the_end(
    added: Iterable[CapturedSpan], left: Iterable[CapturedSpan], *, close: bool = False, stored: bool = False
) -> list[Loss]:
    gatherer = LocalGatherer(LIMITS, report_ended=stored)
    for item in added:
        gatherer.add([item], 0.0)
        if close:
            gatherer.close_due(9.0)
    losses = gatherer.end(list(left))
    assert gatherer.open_traces == set()
    assert gatherer.end([]) == []
    return losses


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=3), st.integers(0, 24))
def test_each_open_run_counts_once_however_many_of_its_spans_were_taken(trees: list[int], taken: int) -> None:
    items = []
    for root, size in zip((100, 200, 300), trees, strict=False):
        items += [ended(7, root + each, parent=root, owner=root) for each in range(1, size)]
        items.append(ended(7, root))
    losses = at_the_end(items[:taken], items[taken:])
    assert losses == [Loss("run", "undecided_at_shutdown", f"{7:032x}", len(trees))]


def test_all_below_one_open_span_is_one_run_wherever_it_is() -> None:
    losses = at_the_end([ended(1, 21, 20, 20)], [ended(1, 22, 20, 20), ended(1, 23, 22, 20)])
    assert losses == [Loss("run", "root_not_ended_at_shutdown", f"{1:032x}", 1)]
    losses = at_the_end([ended(1, 21, 20, 20)], [ended(1, 31, 30, 30), ended(2, 41, 40, 40)])
    assert losses == [Loss("run", "root_not_ended_at_shutdown", f"{n:032x}", 3 - n) for n in (1, 2)]


def test_what_stands_below_a_closed_run_is_late_and_no_run() -> None:
    assert at_the_end([ended(1, 10)], [ended(1, 11, 10)], close=True) == []


def test_roots_that_a_store_has_are_not_lost() -> None:
    losses = at_the_end([ended(1, 10)], [ended(2, 20)], stored=True)
    assert losses == [Loss("run", "undecided_at_shutdown", f"{2:032x}", 1)]
