"""When recorded items are sent again, and how their times move."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals_gateway._internal.replay.recording import Recorded
from otel_evals_gateway._internal.replay.sender import sending_times, shifts

SECOND = 10**9


def item(trace: str, start: float, end: float) -> Recorded:
    return Recorded("traces", trace.encode(), round(start * SECOND), round(end * SECOND), b"", b"", b"")


RECORDINGS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.floats(0, 1e5), st.floats(0, 1e4)), min_size=1, max_size=30
).map(lambda rows: sorted((item(t, start, start + lasts) for t, start, lasts in rows), key=lambda i: i.known))


def test_a_recording_is_sent_at_its_own_pace() -> None:
    items = [item("a", 100, 101), item("a", 100, 103), item("b", 104, 105)]
    assert sending_times(items, 1.0, inf) == pytest.approx([0, 2, 4])
    assert sending_times(items, 4.0, inf) == pytest.approx([0, 0.5, 1])
    assert sending_times(items, inf, inf) == [0, 0, 0]


def test_long_pauses_are_cut() -> None:
    items = [item("a", 0, 1), item("b", 86_400, 86_401), item("b", 86_400, 86_402)]
    assert sending_times(items, 1.0, 60.0) == pytest.approx([0, 60, 61])
    assert sending_times(items, 10_000.0, 60.0) == pytest.approx([0, 8.64, 8.6401])


@given(RECORDINGS, st.sampled_from([0.5, 1.0, 7.0, 1000.0, inf]), st.sampled_from([0.0, 1.0, inf]))
def test_nothing_lies_in_the_future_and_traces_begin_in_their_order(
    items: list[Recorded], speed: float, max_gap: float
) -> None:
    times = sending_times(items, speed, max_gap)
    moves = shifts(items, times)
    for each, at, move in zip(items, times, moves, strict=True):
        assert each.known + move <= at * SECOND + 1
    by_trace = {each.trace: move for each, move in zip(items, moves, strict=True)}
    assert all(by_trace[each.trace] == move for each, move in zip(items, moves, strict=True))
    starts = {t: min(i.start for i in items if i.trace == t) for t in by_trace}
    ordered = sorted(starts, key=starts.__getitem__)
    for first, second in pairwise(ordered):
        before, after = starts[first] + by_trace[first], starts[second] + by_trace[second]
        assert before < after or starts[first] == starts[second]


@given(RECORDINGS)
def test_at_the_recorded_pace_all_distances_stay(items: list[Recorded]) -> None:
    moves = shifts(items, sending_times(items, 1.0, inf))
    assert max(moves) - min(moves) <= 30_000, "microseconds of rounding"
