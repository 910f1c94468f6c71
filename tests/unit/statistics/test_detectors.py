"""Detectors: an alarm comes with a fall and not without; state is plain numbers."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.statistics.eprocess import BETS
from otel_evals.statistics import (
    Detector,
    ReferenceDetector,
    Sums,
    Tally,
    missing_indicator,
    shared_threshold,
    total,
)


def bucket(passed: int, failed: int, w: float = 1.0) -> Sums:
    return total([*(Sums.of(1.0, w) for _ in range(passed)), *(Sums.of(0.0, w) for _ in range(failed))])


FLOOR = Detector(mean=0.9, period=1_000, largest=1.0)


def after(detector: Detector, *buckets: Sums) -> Detector:
    for each in buckets:
        detector = detector.updated(each)
    return detector


def test_a_fall_raises_an_alarm_and_what_came_before_hardly_delays_it() -> None:
    """After a long good time as after a short one."""
    fall = [bucket(7, 3)] * 40
    for good in (0, 10, 5_000):
        detector = after(FLOOR, *[bucket(9, 1)] * good)
        assert detector.e_value < 20
        assert after(detector, *fall).e_value > 20


def test_a_limit_is_watched_from_below() -> None:
    """A share of missing scores that rises above 5%."""
    limit = Detector(mean=0.05, period=1_000, largest=4.0, side="above")
    lost = sum((Tally.of(4.0) for _ in range(3)), Tally())
    usual = missing_indicator(bucket(95, 4, 4.0), Tally.of(4.0))
    raised = missing_indicator(bucket(9, 8, 4.0), lost)
    assert usual.mean == pytest.approx(0.01)
    assert raised.mean == pytest.approx(0.15)
    assert after(limit, *[usual] * 50).e_value < 1
    assert after(limit, *[raised] * 50).e_value > 20


def test_the_state_is_all_there_is_to_keep() -> None:
    """Through JSON, the detector goes on where it was."""
    detector = after(FLOOR, *[bucket(8, 2)] * 5)
    kept = json.loads(json.dumps(detector.state))
    restored = replace(FLOOR, state=tuple(kept))
    assert restored == detector
    assert len(detector.state) == len(BETS)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 10_000)), max_size=10))
def test_no_bucket_breaks_it(buckets: list[tuple[int, int]]) -> None:
    """However large or empty, the evidence stays a finite number."""
    detector = FLOOR
    for passed, failed in buckets:
        n = passed + failed
        detector = detector.updated(
            Sums(
                n=n,
                w=n,
                wx=passed,
                wxx=passed,
                ww=n,
                wwx=passed,
                wwxx=passed,
                w_max=1.0,
                x_min=0.0,
                x_max=1.0,
            )
        )
    assert 0.0 <= detector.e_value < math.inf


def test_empty_buckets_bring_no_evidence() -> None:
    """Only the share of one that each bucket starts with."""
    assert after(FLOOR, *[Sums()] * 1_000).e_value == pytest.approx(1.0)


def test_a_reference_of_few_runs_proves_nothing() -> None:
    """However deep the fall: the reference's own mean may have been as low."""
    detector = ReferenceDetector.start(bucket(9, 1), period=1_000, largest=1.0)
    for _ in range(100):
        detector = detector.updated(bucket(0, 10))
    assert detector.e_value < 20
    with pytest.raises(ValueError, match=r"^reference: "):
        ReferenceDetector.start(Sums(), period=10, largest=1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mean", -0.1),
        ("mean", math.nan),
        ("period", 0),
        ("largest", 0.5),
        ("inflation", math.inf),
        ("state", (0.0,)),
        ("state", (math.nan,) * len(BETS)),
        ("state", (-1.0,) * len(BETS)),
    ],
)
def test_settings_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=rf"^{name}: "):
        replace(FLOOR, **{name: value})  # type: ignore[arg-type]


def test_the_threshold_grows_with_the_number_of_monitors() -> None:
    assert shared_threshold(0.05, 1) == 20
    assert shared_threshold(0.05, 400) == 8_000
    with pytest.raises(ValueError, match=r"^monitors: "):
        shared_threshold(0.05, 0)
    with pytest.raises(ValueError, match=r"^level: "):
        shared_threshold(1.5, 1)
