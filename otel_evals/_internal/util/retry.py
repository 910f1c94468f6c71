"""Waits between attempts: what a server asks for, and exponential backoff."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_RETRY_AFTER = 3600.0
"""Seconds; a longer wait that a server asks for is cut to this, so that no header stops a client for good."""


def retry_after(
    headers: Mapping[str, str] | None,
    *,
    longest: float = LONGEST_RETRY_AFTER,
    now: Callable[[], datetime] | None = None,
) -> float | None:
    """Seconds that a response asks its client to wait, from its `Retry-After` header.

    The header holds seconds or an HTTP date (RFC 9110, section 10.2.3). `retry-after-ms`, milliseconds, which
    OpenAI's API sends beside it, is more exact and wins. Names are matched in any case.

    Args:
        headers: of the response; None where there are none.
        longest: seconds to which a longer wait is cut.
        now: the current time, with a time zone; the system's clock by default.

    Returns:
        Seconds within 0..`longest`; None where no header says a wait that can be read.
    """
    given = {str(name).lower(): str(value).strip() for name, value in (headers or {}).items()}
    waits = (
        _seconds(given.get("retry-after-ms", ""), 1e-3),
        _seconds(given.get("retry-after", ""), 1.0),
        _until(given.get("retry-after", ""), now or (lambda: datetime.now(UTC))),
    )
    return next((min(max(wait, 0.0), longest) for wait in waits if wait is not None), None)


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
    """Seconds to wait after the given failed attempt (1 is the first), where the server asked for none.

    The wait is drawn evenly between 0 and `min(longest, first * 2**(attempt - 1))`: exponential backoff with
    full jitter, which spreads clients that failed together best (M. Brooker, "Exponential Backoff And
    Jitter", AWS Architecture Blog, 2015).

    Args:
        attempt: number of the attempt that failed, from 1.
        first: seconds that the wait after the first attempt is at most.
        longest: seconds that any wait is at most.
        draw: random numbers in [0, 1]; `lambda: 1.0` gives the upper bound, without jitter.
    """
    doublings = min(max(attempt, 1) - 1, 64)
    return draw() * min(longest, first * 2.0**doublings)
