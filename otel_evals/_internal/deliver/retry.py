"""The bounds of deliveries: sizes, waits, attempts, and the reasons after which there is none."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

from otel_evals._internal.util.retry import LONGEST_RETRY_AFTER
from otel_evals.errors import DestinationError

TRACE_NOT_FOUND = "trace_not_found"
"""The backend does not know the judged span, which may be on its way there."""

FINAL_REASONS = frozenset(
    {
        "refused",
        "unauthorized",
        "not_found",
        "conflict",
        "too_large",
        "redirected",
        "unexpected_answer",
        "not_finite",
        "out_of_range",
        "trace_not_sampled",
    }
)
"""Reasons for which a score will not be accepted later either, as long as nobody changes anything."""
FINAL = {"exported"} | FINAL_REASONS
"""Ends of a delivery after which another attempt is pointless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of each destination's queue, and its attempts: exponential backoff with full jitter."""

    queue_size: int = 2048
    max_bytes: int = 2**28
    """Approximate."""
    batch_size: int = 64
    """Used unless the destination has its own."""
    delay: float = 0.2
    """Seconds that a batch waits to fill."""
    attempts: int = 8
    """Attempts per scored run, the first one included; those that found the trace missing do not count."""
    first: float = 0.5
    """Upper bound of the first wait, in seconds; it doubles with every attempt."""
    longest: float = 30.0
    """Upper bound of every wait, in seconds."""
    absent: float = 900.0
    """Seconds after which a score is given up whose trace the destination does not know."""
    timeout: float = 30.0
    """Seconds that one attempt may take. Work on a thread cannot be interrupted: its attempt lasts until it
    ends, since another one at the same time would send twice, and counts as failing after this time."""
    clock: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random


def reason_of(error: BaseException) -> str:
    """Return the reason under which a loss by this error is counted."""
    if isinstance(error, DestinationError):
        return error.reason if error.retryable or error.reason in FINAL_REASONS else "refused"
    return "timeout" if isinstance(error, TimeoutError) else type(error).__name__


def may_pass(error: BaseException) -> bool:
    """Return True if another attempt may succeed."""
    return not isinstance(error, DestinationError) or error.retryable


def asked_wait(error: BaseException) -> float:
    """Return the seconds that the destination asks to wait, at most an hour."""
    if not isinstance(error, DestinationError) or not error.retryable:
        return 0.0
    asked = error.retry_after or 0.0
    return min(asked, LONGEST_RETRY_AFTER) if asked > 0.0 else 0.0  # also without NaN
