"""What becomes of a run that could not be scored, or not wholly: when it is tried again, and when no more."""

from __future__ import annotations

import time
from dataclasses import replace

from otel_evals.model import Dropped, Outcome, ScorerFailure
from otel_evals.store.entry import Entry, Status

__all__ = [
    "ABSENT",
    "ABSENT_SECONDS",
    "UNAVAILABLE_SECONDS",
    "absent",
    "may_succeed_later",
    "send_back",
    "settled",
]

UNAVAILABLE_SECONDS = 30.0
"""Wait for a judge or a destination that is down."""

ABSENT = "its rule is not configured here"
ABSENT_SECONDS = 60.0

_RETRY_SECONDS = 5.0
_UNAVAILABLE = "JudgeUnavailableError"


def may_succeed_later(entry: Entry, outcome: Outcome, attempts: int) -> bool:
    """Whether an evaluation that ended so is worth another try; if it failed for good, that is noted.

    Args:
        entry: its run.
        outcome: its end.
        attempts: how often scoring a run may fail.
    """
    match outcome:
        case Dropped() | ScorerFailure(error_type="JudgeUnavailableError"):
            return True
        case ScorerFailure(error_type=error_type, message=message):
            # More tries today cannot find more budget.
            if error_type != "BudgetExceededError" and entry.status.attempts + 1 < attempts:
                return True
            entry.failed = f"{error_type}: {message}"[:500]
    return False


def send_back(entry: Entry, place: int, outcome: Outcome) -> None:
    """Note that a task is to be tried again, and how long to wait."""
    entry.back.append(place)
    if isinstance(outcome, ScorerFailure):
        unavailable = outcome.error_type == _UNAVAILABLE
        entry.reason = f"{outcome.error_type}: {outcome.message}"[:500]
        entry.burned |= not unavailable
        wait = UNAVAILABLE_SECONDS if unavailable else _RETRY_SECONDS * 2**entry.status.attempts
        entry.delay = max(entry.delay, wait)
    elif isinstance(outcome, Dropped):
        entry.reason = entry.reason or outcome.reason


def absent(status: Status) -> Status:
    """The status of a run that another process may know what to do with."""
    return replace(status, free=True, due=time.time() + ABSENT_SECONDS, reason=ABSENT)


def settled(entry: Entry) -> Status:
    """The status of a run for which everything was done that could be."""
    status = entry.status
    if entry.back or entry.owed:
        return replace(
            status,
            free=True,
            due=time.time() + entry.delay,
            attempts=status.attempts + entry.burned,
            left=tuple(sorted(entry.back)),
            owed=tuple(entry.owed),
            reason=entry.reason,
        )
    if entry.failed:
        return replace(status, state="aside", reason=entry.failed)
    return replace(status, state="done", left=None, owed=(), attempts=0, reason="")
