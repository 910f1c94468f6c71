"""Waits between attempts: what servers ask for is read and bounded, and backoff grows and is bounded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.util.retry import LONGEST_RETRY_AFTER, backoff, retry_after

NOW = datetime(2031, 5, 2, 12, 0, tzinfo=UTC)


def wait(**headers: str) -> float | None:
    return retry_after({name.replace("_", "-"): value for name, value in headers.items()}, now=lambda: NOW)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("-3", 0.0),
        ("100000000", LONGEST_RETRY_AFTER),
        ("1e999", LONGEST_RETRY_AFTER),
        ("inf", LONGEST_RETRY_AFTER),
        ("9" * 5000, LONGEST_RETRY_AFTER),
        ("nan", None),
        ("", None),
        ("soon", None),
        ("Fri, 99 Foo 2031", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", LONGEST_RETRY_AFTER),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
    ],
)
def test_a_header_is_read_and_bounded(value: str, seconds: float | None) -> None:
    assert wait(Retry_After=value) == seconds


@pytest.mark.parametrize("zone", ["GMT", "-0000", "+0200"])
def test_dates_count_from_now(zone: str) -> None:
    hours = 2 if zone == "+0200" else 0
    date = format_datetime(NOW + timedelta(seconds=90, hours=hours)).replace("+0000", zone)
    assert wait(retry_after=date) == 90.0


def test_milliseconds_win_and_nothing_is_no_wait() -> None:
    assert wait(retry_after="2", retry_after_ms="1250") == 1.25
    assert wait(retry_after="2", retry_after_ms="odd") == 2.0
    assert wait() is retry_after(None) is None


@given(st.text(max_size=40))
def test_no_header_raises_or_exceeds_the_bound(value: str) -> None:
    found = retry_after({"retry-after": value})
    assert found is None or 0.0 <= found <= LONGEST_RETRY_AFTER


@given(st.integers(-5, 10_000), st.floats(0, 1))
def test_backoff_lies_below_its_doubling_bound(attempt: int, drawn: float) -> None:
    waited = backoff(attempt, first=0.5, longest=30.0, draw=lambda: drawn)
    assert 0.0 <= waited <= min(30.0, 0.5 * 2.0 ** (min(max(attempt, 1), 60) - 1))


def test_without_jitter_it_doubles_up_to_the_longest() -> None:
    waits = [backoff(n, first=1.0, longest=5.0, draw=lambda: 1.0) for n in range(1, 6)]
    assert waits == [1.0, 2.0, 4.0, 5.0, 5.0]
