"""Retries from the queue: whether and when a run that was not scored or delivered is tried again."""

from __future__ import annotations

import time
from dataclasses import replace

from otel_evals._internal.durable_queue.stored_run import RunStatus, StoredRun
from otel_evals._internal.model import Dropped, Outcome, ScorerFailure
from otel_evals._internal.util.retry import backoff

UNAVAILABLE_SECONDS = 30.0
"""Wait before the next attempt if a judge or a destination is unavailable."""
ABSENT = "its rule is not configured here"
ABSENT_SECONDS = 60.0
"""Wait before the next attempt if another process may have the rule."""
_FIRST_RETRY, _LONGEST_RETRY = 5.0, 3600.0
"""Seconds before a failed evaluation is tried again."""


def may_succeed_later(status: RunStatus, outcome: Outcome, attempts: int) -> bool:
    """Return True if another attempt at an evaluation is worthwhile; a run may fail `attempts` times."""
    match outcome:
        case Dropped() | ScorerFailure(error_type="JudgeUnavailableError"):
            return True
        case ScorerFailure(error_type="BudgetExceededError"):
            return False  # the budget does not grow by trying again
        case ScorerFailure():
            return status.attempts + 1 < attempts
    return False


def failure_of(outcome: Outcome) -> str:
    """Return an evaluation's error on one line; empty if it did not fail."""
    return f"{outcome.error_type}: {outcome.message}"[:500] if isinstance(outcome, ScorerFailure) else ""


def postpone(run: StoredRun, position: int, outcome: Outcome) -> None:
    run.postponed.append(position)
    if isinstance(outcome, ScorerFailure):
        unavailable = outcome.error_type == "JudgeUnavailableError"
        run.reason = failure_of(outcome)
        run.failed_attempt |= not unavailable
        attempt = run.status.attempts + 1
        wait = backoff(attempt, first=_FIRST_RETRY, longest=_LONGEST_RETRY, draw=lambda: 1.0)
        run.delay = max(run.delay, UNAVAILABLE_SECONDS if unavailable else wait)
    elif isinstance(outcome, Dropped):
        run.reason = run.reason or outcome.reason


def absent(status: RunStatus) -> RunStatus:
    """Return the status of a run whose rules are not configured here: free for another process."""
    return replace(status, free=True, due=time.time() + ABSENT_SECONDS, reason=ABSENT)


def settled(run: StoredRun) -> RunStatus:
    """Return the status of a run without tasks in progress: to be tried again, dead letter, or done."""
    status = run.status
    if run.postponed or run.undelivered:
        return replace(
            status,
            free=True,
            due=time.time() + run.delay,
            attempts=status.attempts + run.failed_attempt,
            left=tuple(sorted(run.postponed)),
            undelivered=tuple(run.undelivered),
            reason=run.reason,
        )
    if run.failed:
        return replace(status, state="dead_letter", reason=run.failed)
    return replace(status, state="done", left=None, undelivered=(), attempts=0, reason="")
