"""Waits between attempts: `Retry-After` headers, and exponential backoff."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_RETRY_AFTER = 3600.0
"""Seconds; longer waits in headers are cut to this: no header may stop a client for good."""


def retry_after(
    headers: Mapping[str, str] | None, *, now: Callable[[], datetime] | None = None
) -> float | None:
    """Return the seconds to wait by the `Retry-After` header of a response, within 0..3600.

    The header is in seconds or an HTTP date (RFC 9110, section 10.2.3). `retry-after-ms` of OpenAI's API, in
    milliseconds, takes precedence. Names are case-insensitive. Returns None without a valid header.

    Args:
        headers: of the response.
        now: clock with a time zone; the system's by default.
    """
    given = {str(name).lower(): str(value).strip() for name, value in (headers or {}).items()}
    waits = (
        _seconds(given.get("retry-after-ms", ""), 1e-3),
        _seconds(given.get("retry-after", ""), 1.0),
        _until(given.get("retry-after", ""), now or (lambda: datetime.now(UTC))),
    )
    return next((min(max(wait, 0.0), LONGEST_RETRY_AFTER) for wait in waits if wait is not None), None)


def _seconds(value: str, unit: float) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return None if math.isnan(number) else number * unit


def _until(value: str, now: Callable[[], datetime]) -> float | None:
    try:
        date = parsedate_to_datetime(value)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now().timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def backoff(
    attempt: int, *, first: float, longest: float, draw: Callable[[], float] = random.random
) -> float:
    """Return the seconds to wait after a failed attempt: exponential backoff with full jitter.

    Uniform between 0 and `min(longest, first * 2**(attempt - 1))`, which spreads clients that failed together
    (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015).

    Args:
        attempt: number of the failed attempt, from 1.
        first: maximum seconds after the first attempt.
        longest: maximum seconds after any attempt.
        draw: random numbers in [0, 1]; `lambda: 1.0` returns the maximum.
    """
    # Bounded, because a float overflows at 2 ** 1024.
    doublings = min(max(attempt, 1) - 1, 64)
    return draw() * min(longest, first * 2.0**doublings)
