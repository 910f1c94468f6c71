"""The clocks of a Kafka source: they go on with what was read, and stop while that is unknown."""

from __future__ import annotations

from otel_evals_gateway._internal.kafka.source_clock import SourceClock

A, B, LOGS = ("spans", 0), ("spans", 1), ("logs", 0)


class Wall:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def started(wall: Wall | None = None) -> SourceClock:
    clock = SourceClock(wall or Wall())
    clock.assign([A, B])
    return clock


def test_each_partition_has_the_time_up_to_which_it_was_read_and_a_topic_the_earliest() -> None:
    clock = started()
    clock.read(A, 500.0)
    clock.looked({A: 9, B: 9}, {A: 5, B: 0}, 1_000.0)
    assert clock.times == {A: 500.0, B: 0.0, "spans": 0.0}
    clock.read(B, 300.0)
    clock.looked({A: 9, B: 9}, {A: 5, B: 5}, 1_000.0)
    assert clock.times == {A: 500.0, B: 300.0, "spans": 300.0}


def test_a_partition_waits_for_the_other_topic_where_log_records_may_be() -> None:
    clock = started()
    clock.assign([LOGS])
    clock.read(A, 500.0)
    clock.read(LOGS, 200.0)
    clock.looked({A: 9, B: 0, LOGS: 9}, {A: 5, B: 0, LOGS: 5}, 1_000.0)
    assert clock.times == {A: 200.0, B: 200.0, LOGS: 200.0, "spans": 200.0, "logs": 200.0}


def test_a_partition_that_was_read_to_its_end_is_as_late_as_the_look_at_it() -> None:
    clock = started()
    clock.read(A, 500.0)
    clock.looked({A: 9, B: 0}, {A: 9, B: -1}, 999.5)
    assert clock.times == {A: 999.5, B: 0.0, "spans": 0.0}, "B was not read at all"
    clock.looked({A: 9, B: 0}, {A: 9, B: 0}, 999.5)
    assert clock.now == 999.5


def test_a_partition_that_comes_back_from_another_member_starts_again() -> None:
    """The other member may have committed less than this one had read."""
    clock = started()
    clock.looked({A: 9, B: 9}, {A: 9, B: 9}, 999.5)
    clock.lose([A])
    assert clock.times == {B: 999.5, "spans": 999.5}
    clock.assign([A])
    assert clock.times[A] == 0.0
    clock.read(A, 400.0)
    clock.looked({A: 9, B: 9}, {A: 5, B: 9}, 999.5)
    assert clock.times == {A: 400.0, B: 999.5, "spans": 400.0}


def test_it_never_goes_back_nor_beyond_the_present() -> None:
    clock = started()
    assert clock.read(A, 9_999.0) == 1_000.0
    clock.looked({A: 5, B: 5}, {A: 3, B: 5}, 1_000.0)
    assert clock.now == 1_000.0
    clock.read(B, 10.0)
    clock.looked({A: 5, B: 9}, {A: 5, B: 6}, 1_000.0)
    assert clock.now == 1_000.0


def test_it_stops_during_an_outage_and_a_while_after_it() -> None:
    wall = Wall()
    clock = started(wall)
    clock.looked({A: 1, B: 1}, {A: 1, B: 1}, 1_000.0)
    clock.lost_sight()
    wall.now = 1_040.0
    clock.lost_sight()
    wall.now = 1_041.0
    clock.looked({A: 1, B: 1}, {A: 1, B: 1}, 1_041.0)
    clock.let_go(5.0)
    assert clock.now == 1_000.0, "producers send now what they could not send"
    wall.now = 1_060.0
    clock.looked({A: 1, B: 1}, {A: 1, B: 1}, 1_060.0)
    assert clock.now == 1_060.0


def test_open_traces_that_take_all_room_are_let_go() -> None:
    clock = started()
    clock.read(A, 500.0)
    clock.looked({A: 9, B: 9}, {A: 5, B: 0}, 1_000.0)
    clock.let_go(3.0)
    assert clock.times == {A: 503.0, B: 503.0, "spans": 503.0}
    clock.looked({A: 9, B: 9}, {A: 5, B: 0}, 1_000.0)
    assert clock.now == 503.0
