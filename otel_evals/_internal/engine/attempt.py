"""Targets of evaluations, and retries of failed attempts."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from otel_evals._internal.config.rules import Rule
from otel_evals._internal.model import Dropped, Evaluation, Outcome, Run, ScorerFailure, StepRecord
from otel_evals._internal.scorers.kit.isolation import ProcessDiedError
from otel_evals._internal.scorers.kit.outcome import asked_wait, steps_of_error
from otel_evals._internal.util.retry import backoff

_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0

Known = Callable[[str, Run], tuple[int, Outcome | None]]
"""Returns the outcome of an evaluation, by its id, that was made of a run before, and its revision; without
an outcome, the least revision of the evaluation to make."""


class Target(msgspec.Struct, eq=False):
    """A judged span or conversation, with its evaluations so far."""

    run: Run
    revision: int = 1
    held: bool = True
    """True for a span that may be held for its scores, which a check and a conversation are not."""
    open: int = 0
    """Number of evaluations without an outcome."""
    evaluations: tuple[Evaluation, ...] = ()
    size: int = 0
    """Approximate bytes of the run, while the target is open."""
    kept: bool = True
    """False if the source could not keep the run: no other process can deliver its scores then."""


def wait_before_retry(rule: Rule, attempts: int, cause: BaseException) -> float | None:
    """Return the seconds until the attempt after an error; None if there is none."""
    # A process that died gets one further attempt, whatever the rule allows.
    if isinstance(cause, ProcessDiedError) and attempts == 1:
        return 0.0
    asked = asked_wait(cause)
    if asked is None or attempts >= rule.attempts:
        return None
    wait = backoff(attempts, first=_FIRST_BACKOFF, longest=_LONGEST_BACKOFF, draw=random.random)
    # A server may ask for hours, for which the evaluation would keep its place in the queue.
    return max(wait, min(asked, _LONGEST_BACKOFF))


def paid_steps(error: BaseException) -> tuple[StepRecord, ...]:
    """Return the steps of a failed attempt for which a judge was paid."""
    return tuple(step for step in steps_of_error(error) if step.cost or step.usage.total_tokens)


def with_paid(outcome: Outcome, paid: tuple[StepRecord, ...]) -> Outcome:
    """Return an outcome with the paid steps of earlier attempts before its own."""
    return outcome if isinstance(outcome, Dropped) else replace(outcome, steps=paid + outcome.steps)


def timeout_of(rule: Rule, error: BaseException) -> ScorerFailure:
    """Return the outcome of an attempt that was cancelled at its timeout."""
    message = f"no score within {rule.timeout:g} s"
    return ScorerFailure(error_type="timeout", message=message, steps=steps_of_error(error))
