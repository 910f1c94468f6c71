"""The clock of a Kafka source: it goes on with what was read, and stops while that is unknown."""

from __future__ import annotations

from otel_evals_gateway._internal.kafka.source_clock import SourceClock

A, B = ("spans", 0), ("spans", 1)


class Wall:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def test_it_is_the_time_of_the_partition_that_is_furthest_behind() -> None:
    clock = SourceClock(Wall())
    clock.read(A, 500.0)
    clock.read(B, 300.0)
    clock.looked({A: 9, B: 9}, {A: 5, B: 5}, 1_000.0)
    assert clock.now == 300.0
    clock.read(B, 700.0)
    clock.looked({A: 9, B: 9}, {A: 5, B: 8}, 1_000.0)
    assert clock.now == 500.0


def test_partitions_read_to_their_end_are_as_late_as_the_look_at_them() -> None:
    wall = Wall()
    clock = SourceClock(wall)
    clock.read(A, 500.0)
    clock.looked({A: 9, B: 0}, {A: 9, B: -1}, 999.5)
    assert clock.now == 0.0, "B was not read at all"
    clock.looked({A: 9, B: 0}, {A: 9, B: 0}, 999.5)
    assert clock.now == 999.5


def test_it_never_goes_back_nor_beyond_the_present() -> None:
    clock = SourceClock(Wall())
    assert clock.read(A, 9_999.0) == 1_000.0
    clock.looked({A: 5}, {A: 3}, 1_000.0)
    assert clock.now == 1_000.0
    clock.read(B, 10.0)
    clock.looked({A: 5, B: 5}, {A: 5, B: 1}, 1_000.0)
    assert clock.now == 1_000.0


def test_it_stops_during_an_outage_and_a_while_after_it() -> None:
    wall = Wall()
    clock = SourceClock(wall)
    clock.looked({A: 1}, {A: 1}, 1_000.0)
    clock.lost_sight()
    wall.now = 1_040.0
    clock.lost_sight()
    wall.now = 1_041.0
    clock.looked({A: 1}, {A: 1}, 1_041.0)
    assert clock.now == 1_000.0, "producers send now what they could not send"
    wall.now = 1_060.0
    clock.looked({A: 1}, {A: 1}, 1_060.0)
    assert clock.now == 1_060.0
