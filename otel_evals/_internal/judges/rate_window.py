"""A rate limit at the server: at most so much in any window of a length."""

from __future__ import annotations

import math
import re

from otel_evals.errors import ConfigError

_SECONDS = {
    "s": 1.0,
    "sec": 1.0,
    "second": 1.0,
    "m": 60.0,
    "min": 60.0,
    "minute": 60.0,
    "h": 3600.0,
    "hour": 3600.0,
}
_RATE = re.compile(r"\s*(\d[\d_]*)\s*(?:/|per)\s*([a-z]+)\s*")


class Reservation:
    """The room that one call takes in a window: an amount, until a time."""

    __slots__ = ("amount", "until")

    def __init__(self, amount: int, until: float) -> None:
        self.amount = amount
        self.until = until


class RateWindow:
    """Lets at most `limit` arrive at the server within any `length` seconds.

    A call arrives between its start and its end. Its reservation lasts until `length` after its end; or,
    since slow calls would cost throughput, until `length` after a quarter of `length` from its start, which
    is ample for a request to arrive. That is not assumed before the first call has ended, because the first
    call loads code.

    Not thread-safe: its user holds a lock.
    """

    def __init__(self, limit: int, length: float) -> None:
        self._limit = limit
        self._length = length
        self._arrives_within = math.inf
        self._reservations: list[Reservation] = []

    def wait(self, now: float, amount: int) -> float:
        """Return the seconds until there may be room; an amount above the limit waits for an empty window."""
        self._reservations = [r for r in self._reservations if r.until > now]
        short = min(amount, self._limit) + sum(r.amount for r in self._reservations) - self._limit
        wait = 0.0
        for reservation in sorted(self._reservations, key=lambda reservation: reservation.until):
            if short <= 0:
                break
            short -= reservation.amount
            wait = reservation.until - now
        return wait

    def reserve(self, now: float, amount: int) -> Reservation:
        """Take room for a call that starts now."""
        reservation = Reservation(min(amount, self._limit), now + self._arrives_within + self._length)
        self._reservations.append(reservation)
        return reservation

    def call_ended(self, now: float, reservation: Reservation) -> None:
        reservation.until = min(reservation.until, now + self._length)
        self._arrives_within = self._length / 4


def parse_rate(rate: str, field: str) -> tuple[int, float]:
    """Return count and seconds of a rate such as `10/s`, `500/min` or `1_000 per hour`."""
    found = _RATE.fullmatch(rate)
    if found is None or found[2] not in _SECONDS or int(found[1]) < 1:
        raise ConfigError(field, f"must be a rate such as '10/s' or '500/min', not {rate!r}")
    return int(found[1]), _SECONDS[found[2]]
