"""Limits of a judge's provider: how much at once, how much per minute, and when to leave it alone.

Calls beyond a limit wait in line; none is refused, except while the breaker is open.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.lowlevel import RunVar

from otel_evals.errors import ConfigError, JudgeUnavailableError
from otel_evals.judge.gates import Call, Settle
from otel_evals.model import Usage

__all__ = ["Limits", "parse_rate"]

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


class Limits:
    """What a provider may be asked to bear. Share one object among the judges that share the provider.

    Args:
        concurrency: calls at the same time.
        requests: calls per time, such as `10/s` or `500/min`; never exceeded over any window of that length.
        tokens: tokens per time, in and out, such as `200_000/min`; estimated before a call, corrected after.
        failures: calls in a row that find the provider unavailable until the breaker opens.
        cooldown: seconds an open breaker fails every call without making it; then one call tries again.
        clock: seconds, never going back.

    Raises:
        ConfigError: an option is out of its range.
    """

    def __init__(
        self,
        *,
        concurrency: int = 16,
        requests: str | None = None,
        tokens: str | None = None,
        failures: int = 5,
        cooldown: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if concurrency < 1 or failures < 1 or cooldown <= 0:
            raise ConfigError("limits", "concurrency and failures must be at least 1, cooldown positive")
        self._concurrency = concurrency
        rates = {"requests": requests, "tokens": tokens}
        self._windows = {n: Window(*parse_rate(r, f"limits.{n}")) for n, r in rates.items() if r}
        self._breaker = Breaker(failures, cooldown)
        self._clock = clock
        self._lock = threading.Lock()
        self._lines: RunVar[Lines] = RunVar("otel_evals.judge.limits")  # of each event loop

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    @asynccontextmanager
    async def around(self, call: Call) -> AsyncIterator[Settle]:
        """Wait for a turn.

        Raises:
            JudgeUnavailableError: the breaker is open.
        """
        self._refuse_if_open(self._breaker.wait)
        async with self._here().turns:
            places = await self._wait(call)
            try:
                self._refuse_if_open(self._breaker.admit)
                yield lambda usage, cost: self._settle(places, usage)
            except JudgeUnavailableError as error:
                with self._lock:
                    self._breaker.failed(self._clock(), error.retry_after)
                raise
            finally:
                self._over(places)
            with self._lock:
                self._breaker.succeeded()

    def _here(self) -> Lines:
        """Where calls of this event loop wait."""
        lines = self._lines.get(None)
        if lines is None:
            lines = Lines(self._concurrency)
            self._lines.set(lines)
        return lines

    async def _wait(self, call: Call) -> list[Place]:
        """Wait for room in every window, first come first served, and take it."""
        wanted = {"requests": 1, "tokens": call.max_input_tokens // 3 + (call.max_output_tokens or 500)}
        async with self._here().line:
            while True:
                with self._lock:
                    now = self._clock()
                    waits = [window.wait(now, wanted[name]) for name, window in self._windows.items()]
                    wait = max([self._breaker.quiet_until - now, *waits])
                    if wait <= 0.0:
                        return [window.take(now, wanted[name]) for name, window in self._windows.items()]
                await anyio.sleep(min(wait, 0.05))  # a call that ends sooner makes room sooner

    def _settle(self, places: list[Place], usage: Usage) -> None:
        with self._lock:
            for window, place in zip(self._windows, places, strict=True):
                if window == "tokens":
                    place.amount = usage.total_tokens

    def _over(self, places: list[Place]) -> None:
        with self._lock:
            now = self._clock()
            for window, place in zip(self._windows.values(), places, strict=True):
                window.over(now, place)

    def _refuse_if_open(self, ask: Callable[[float], float]) -> None:
        with self._lock:
            wait = ask(self._clock())
        if wait > 0:
            times = f"the judge was unavailable {self._breaker.failures} times in a row"
            raise JudgeUnavailableError(f"{times}: not asked again for {wait:.0f} s", retry_after=wait)


class Lines:
    """Where the calls of one event loop wait."""

    def __init__(self, concurrency: int) -> None:
        self.turns = anyio.Semaphore(concurrency)
        self.line = anyio.Lock()


class Place:
    """Room taken in a window by one call."""

    __slots__ = ("amount", "until")

    def __init__(self, amount: int, until: float) -> None:
        self.amount = amount
        self.until = until


class Window:
    """At most `limit` arriving at the server within any `length` seconds.

    A call arrives some time between its start and its end. Its place is therefore kept until `length` after
    its end; or, so that slow calls do not cost throughput, after a quarter of `length` from its start,
    which is ample for a request to arrive. Until the first call is over even that is not trusted: it loads
    code first.
    """

    def __init__(self, limit: int, length: float) -> None:
        self._limit = limit
        self._length = length
        self._slack = math.inf
        self._places: list[Place] = []

    def wait(self, now: float, amount: int) -> float:
        """Seconds until there may be room; what exceeds the whole limit waits for an empty window."""
        self._places = [place for place in self._places if place.until > now]
        short = min(amount, self._limit) + sum(place.amount for place in self._places) - self._limit
        wait = 0.0
        for place in sorted(self._places, key=lambda place: place.until):
            if short <= 0:
                break
            short -= place.amount
            wait = place.until - now
        return wait

    def take(self, now: float, amount: int) -> Place:
        """Take room."""
        place = Place(min(amount, self._limit), now + self._slack + self._length)
        self._places.append(place)
        return place

    def over(self, now: float, place: Place) -> None:
        """The call that took a place has ended."""
        place.until = min(place.until, now + self._length)
        self._slack = self._length / 4


class Breaker:
    """Opens after failures in a row, lets one call try after a cooldown."""

    def __init__(self, failures: int, cooldown: float) -> None:
        self.failures = failures
        self.quiet_until = 0.0
        """Until when the provider asked to be left alone."""
        self._cooldown = cooldown
        self._in_a_row = 0
        self._open_until = 0.0

    def wait(self, now: float) -> float:
        """Seconds for which no call is made."""
        return max(0.0, self._open_until - now) if self._in_a_row >= self.failures else 0.0

    def admit(self, now: float) -> float:
        """The same; but if it is over, this call tries and the others go on waiting."""
        wait = self.wait(now)
        if wait == 0.0 and self._in_a_row >= self.failures:
            self._open_until = now + self._cooldown
        return wait

    def failed(self, now: float, retry_after: float | None) -> None:
        """A call found the provider unavailable."""
        self._in_a_row += 1
        self.quiet_until = max(self.quiet_until, now + (retry_after or 0.0))
        if self._in_a_row >= self.failures:
            self._open_until = max(now + self._cooldown, self.quiet_until)

    def succeeded(self) -> None:
        """A call was answered."""
        self._in_a_row = 0


def parse_rate(rate: str, field: str) -> tuple[int, float]:
    """Count and seconds of a rate such as `10/s`, `500/min` or `1_000 per hour`.

    Raises:
        ConfigError: it is not a rate.
    """
    found = _RATE.fullmatch(rate)
    if found is None or found[2] not in _SECONDS or int(found[1]) < 1:
        raise ConfigError(field, f"must be a rate such as '10/s' or '500/min', not {rate!r}")
    return int(found[1]), _SECONDS[found[2]]
