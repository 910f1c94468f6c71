"""When scored runs are sent again, and the reasons after which they are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

from otel_evals._internal.deliver.destination import Unaccepted
from otel_evals._internal.model import Evaluation
from otel_evals._internal.util.plain import attribute, plain_text, type_name
from otel_evals._internal.util.retry import LONGEST_RETRY_AFTER, backoff
from otel_evals.errors import ConfigError, DestinationError

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
class Retry:
    """Timing of attempts after a failed delivery: exponential backoff with full jitter."""

    attempts: int = 8
    """Attempts per scored run, the first one included; those that found the trace missing do not count."""
    first: float = 0.5
    """Upper bound of the first wait, in seconds; it doubles with every attempt."""
    longest: float = 30.0
    """Upper bound of every wait, in seconds."""
    total: float = 300.0
    """Seconds after which a scored run is given up, even if attempts are left. Waits that the destination
    asks for do not count."""
    absent: float = 900.0
    """Seconds after which a score is given up whose trace the destination does not know."""
    timeout: float = 30.0
    """Seconds that one attempt may take. Work on a thread cannot be interrupted: its attempt lasts until it
    ends, since another one at the same time would send twice, and counts as failing after this time."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ConfigError(f"retry.{name}", "must be greater than zero")

    def wait(self, attempt: int, draw: float) -> float:
        """Return the seconds to wait after an attempt (1 is the first); `draw` is a number in [0, 1)."""
        return backoff(attempt, first=self.first, longest=self.longest, draw=lambda: draw)


def told(error: BaseException) -> BaseException:
    """Return a destination's error with fields of their declared types and a bounded wait."""
    if not is_ours(error):
        return error
    given = {name: attribute(error, name) for name in ("retryable", "retry_after", "reason", "status")}
    wait, reason, status = given["retry_after"], given["reason"], given["status"]
    waits = type(wait) in (int, float) and wait >= 0
    return DestinationError(
        plain_text(error, 2_000),
        retryable=given["retryable"] is True,
        retry_after=float(min(wait, LONGEST_RETRY_AFTER)) if waits else None,
        reason=plain_text(reason, 100) if type(reason) is str else None,
        status=status if type(status) is int else None,
    )


def unaccepted(answer: object) -> Sequence[Unaccepted]:
    """Return the evaluations that a destination says it did not accept; nothing for other answers."""
    if not issubclass(type(answer), list | tuple):
        return ()
    try:
        given = [each for each in answer if type(each) is Unaccepted and _is_known(each.evaluation)]  # type: ignore[attr-defined]  # by its type
    except BaseException:  # a list that it made itself
        return ()
    return [Unaccepted(each.evaluation, _why(each.error)) for each in given]


def _is_known(evaluation: object) -> bool:
    """Return True for an evaluation with ids by which it can be found."""
    if type(evaluation) is not Evaluation:
        return False
    return (
        type(evaluation.trace_id) is type(evaluation.evaluation_id) is str
        and type(evaluation.revision) is int
    )


def _why(error: object) -> DestinationError:
    plain = told(error) if issubclass(type(error), BaseException) else None  # type: ignore[arg-type]  # by its type
    if plain is not None and is_ours(plain):
        return plain
    return DestinationError(plain_text(error, 2_000), retryable=False, reason="unexpected_answer")


def reason_of(error: BaseException) -> str:
    """Return the reason under which a loss by this error is counted."""
    if is_ours(error):
        return error.reason if error.retryable or error.reason in FINAL_REASONS else "refused"
    return "timeout" if issubclass(type(error), TimeoutError) else type_name(error)


def is_ours(error: BaseException) -> TypeGuard[DestinationError]:
    """Return True for a DestinationError, whatever class it claims to have."""
    return issubclass(type(error), DestinationError)
