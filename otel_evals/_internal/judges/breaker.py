"""A circuit breaker: stops calls to a provider that fails again and again, and tries it again later."""

from __future__ import annotations


class CircuitBreaker:
    """Opens after failures in a row; after a cooldown, one trial call decides whether it closes.

    Not thread-safe: its user holds a lock. Times are seconds on the user's clock.
    """

    def __init__(self, failures: int, cooldown: float) -> None:
        self.failures = failures
        self._cooldown = cooldown
        self._failed_in_a_row = 0
        self._closed_to: float | None = None

    @property
    def is_open(self) -> bool:
        return self._failed_in_a_row >= self.failures

    def wait(self, now: float) -> float:
        """Return the seconds until a call may be made."""
        return 0.0 if self._closed_to is None else max(0.0, self._closed_to - now)

    def call_started(self, now: float) -> None:
        """Record a call; the trial of an open breaker is the only one for a cooldown."""
        if self.is_open:
            self._closed_to = now + self._cooldown

    def call_failed(self, now: float) -> None:
        self._failed_in_a_row += 1
        if self.is_open:
            self._closed_to = now + self._cooldown

    def call_succeeded(self) -> None:
        self._failed_in_a_row = 0
        self._closed_to = None
