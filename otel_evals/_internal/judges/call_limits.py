"""Call limits of a judge's provider: concurrency, calls and tokens per time, and a circuit breaker.

Calls beyond a limit wait in line. A call fails at once only while the circuit breaker is open, or while the
provider has asked for a pause that is longer than a call should wait.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import anyio
from anyio.lowlevel import RunVar

from otel_evals._internal.judges.judge import Call, Settle
from otel_evals._internal.judges.shared_limits import SharedWindows
from otel_evals._internal.model import Usage
from otel_evals._internal.redis_server import is_address, redis_server
from otel_evals._internal.util.calls import in_thread, of_this_loop
from otel_evals._internal.util.fork import renew_after_fork
from otel_evals.errors import ConfigError, JudgeUnavailableError

_LONGEST_WAIT = 5.0
"""Seconds a call waits for the end of a provider's pause; it fails at once for a longer one."""
_POLL = 0.05


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


_UNITS = {1.0: ("s", "sec", "second"), 60.0: ("m", "min", "minute"), 3600.0: ("h", "hour")}
_SECONDS = {name: seconds for seconds, names in _UNITS.items() for name in names}
_RATE = re.compile(r"\s*(\d[\d_]*)\s*(?:/|per)\s*([a-z]+)\s*")


@dataclass(slots=True)
class Reservation:
    """The room that one call takes in a window: an amount, until a time."""

    amount: int
    until: float


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


class JudgeLimits:
    """Call limits of a provider. Share one object among the judges that use the provider.

    Args:
        concurrency: concurrent calls.
        requests: calls per time, such as `10/s` or `500/min`; never exceeded over any window of that
            length.
        tokens: tokens per time, in and out, such as `200_000/min`; estimated before a call, corrected
            after.
        failures: unavailable answers in a row that open the breaker.
        cooldown: seconds for which an open breaker fails every call; then one call tries again.
        longest_pause: maximum seconds of a pause by the provider's `Retry-After`.
        store: address `redis://HOST:PORT/NUMBER` of a server that applies `requests` and `tokens` to all
            processes that name it; by default they apply to one process, and also while the server is away.
        name: of the provider, if several have limits in one store.
        clock: seconds, monotonic.

    Raises:
        ConfigError: an option is out of range, or the store's address is invalid.
    """

    def __init__(
        self,
        *,
        concurrency: int = 16,
        requests: str | None = None,
        tokens: str | None = None,
        failures: int = 5,
        cooldown: float = 30.0,
        longest_pause: float = 300.0,
        store: str | None = None,
        name: str = "judge",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if concurrency < 1 or failures < 1 or not cooldown > 0 or not longest_pause > 0:
            wanted = "concurrency and failures must be at least 1, cooldown and longest_pause positive"
            raise ConfigError("limits", wanted)
        self._concurrency = concurrency
        asked = {"requests": requests, "tokens": tokens}
        rates = {what: parse_rate(rate, f"limits.{what}") for what, rate in asked.items() if rate}
        self._windows = {what: RateWindow(*rate) for what, rate in rates.items()}
        self._shared = _shared(store, name, rates)
        self._breaker = CircuitBreaker(failures, cooldown)
        self._longest_pause = longest_pause
        self._paused_until = 0.0
        self._clock = clock
        self.lock = threading.Lock()
        renew_after_fork(self)
        self._queues: RunVar[_LoopQueue] = RunVar("otel_evals._internal.judges.call_limits")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Replace the lock in a forked child."""
        self.lock = threading.Lock()

    @asynccontextmanager
    async def around(self, call: Call) -> AsyncIterator[Settle]:
        """Wait for a turn.

        Raises:
            JudgeUnavailableError: the breaker is open, or the provider asked for a long pause.
        """
        with self.lock:
            self._refuse_if_stopped()
        async with self._queue().slots:
            id = uuid4().hex
            reservations = await self._reserve(id, call)
            try:
                yield lambda usage, cost: self._settle(reservations, usage)
            except JudgeUnavailableError as error:
                self._failed(error)
                raise
            finally:
                await self._ended(id, reservations)
            with self.lock:
                self._breaker.call_succeeded()

    def _queue(self) -> _LoopQueue:
        return of_this_loop(self._queues, lambda: _LoopQueue(self._concurrency))

    async def _reserve(self, id: str, call: Call) -> dict[str, Reservation]:
        """Wait for room in every window, first come first served; take it as the call starts."""
        wanted = {"requests": 1, "tokens": call.max_input_tokens // 3 + (call.max_output_tokens or 500)}
        async with self._queue().line:
            while True:
                with self.lock:
                    self._refuse_if_stopped()
                    now = self._clock()
                    waits = [window.wait(now, wanted[name]) for name, window in self._windows.items()]
                    wait = max([self._paused_until - now, *waits])
                    if wait <= 0.0:
                        taken = {
                            name: window.reserve(now, wanted[name]) for name, window in self._windows.items()
                        }
                if wait <= 0.0 and (wait := await self._take_shared(id, wanted, taken)) <= 0.0:
                    with self.lock:
                        self._breaker.call_started(self._clock())
                    return taken
                await anyio.sleep(min(wait, _POLL))

    async def _take_shared(self, id: str, wanted: dict[str, int], taken: dict[str, Reservation]) -> float:
        """Take room in the shared windows, or return the seconds to wait and release `taken`."""
        if self._shared is None:
            return 0.0
        wait = math.inf
        try:
            wait = await in_thread(self._shared.take, id, wanted)
        finally:
            if wait > 0.0:
                with self.lock:
                    for reservation in taken.values():
                        reservation.until = -math.inf
        return wait

    def _refuse_if_stopped(self) -> None:
        now = self._clock()
        if (wait := self._breaker.wait(now)) > 0:
            problem = f"the judge was unavailable {self._breaker.failures} times in a row"
        elif (wait := self._paused_until - now) > _LONGEST_WAIT:
            problem = "the judge's provider asked for a pause"
        else:
            return
        raise JudgeUnavailableError(f"{problem}: not asked again for {wait:.0f} s", retry_after=wait)

    def _settle(self, taken: dict[str, Reservation], usage: Usage) -> None:
        with self.lock:
            if "tokens" in taken:
                taken["tokens"].amount = max(usage.total_tokens, 0)

    def _failed(self, error: JudgeUnavailableError) -> None:
        with self.lock:
            now = self._clock()
            pause = min(error.retry_after or 0.0, self._longest_pause)
            self._paused_until = max(self._paused_until, now + pause)
            self._breaker.call_failed(now)

    async def _ended(self, id: str, taken: dict[str, Reservation]) -> None:
        with self.lock:
            now = self._clock()
            for name, window in self._windows.items():
                window.call_ended(now, taken[name])
        if self._shared is not None:
            used = {name: reservation.amount for name, reservation in taken.items()}
            with anyio.CancelScope(shield=True):
                await in_thread(self._shared.end, id, used)


def _shared(store: str | None, name: str, rates: dict[str, tuple[int, float]]) -> SharedWindows | None:
    if store is None:
        return None
    if not is_address(store, "limits.store"):
        raise ConfigError("limits.store", f"must be redis://HOST:PORT/NUMBER, not {store!r}")
    if not rates:
        raise ConfigError("limits.store", "needs `requests`, `tokens` or both: nothing else is shared")
    return SharedWindows(redis_server(store), name, rates)


class _LoopQueue:
    """An event loop's waiting calls: for a slot, then in line for room in the windows."""

    def __init__(self, concurrency: int) -> None:
        self.slots = anyio.Semaphore(concurrency)
        self.line = anyio.Lock()
