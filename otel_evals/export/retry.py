"""When scored runs are sent again, and the reasons after which they are not."""

from __future__ import annotations

from dataclasses import dataclass

from otel_evals.errors import ConfigError, DestinationError
from otel_evals.util.retry import backoff

__all__ = ["FINAL_REASONS", "TRACE_NOT_FOUND", "Retry", "reason_of"]

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a scored run is sent again after a failure: exponential backoff with full jitter."""

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
    """Seconds that one attempt may take."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ConfigError(f"retry.{name}", "must be greater than zero")

    def wait(self, attempt: int, draw: float) -> float:
        """Seconds to wait after the given attempt (1 is the first); `draw` is a random number in [0, 1)."""
        return backoff(attempt, first=self.first, longest=self.longest, draw=lambda: draw)


def reason_of(error: BaseException) -> str:
    """What a loss by this error is counted under."""
    if isinstance(error, DestinationError):
        return error.reason if error.retryable or error.reason in FINAL_REASONS else "refused"
    return "timeout" if isinstance(error, TimeoutError) else type(error).__name__
