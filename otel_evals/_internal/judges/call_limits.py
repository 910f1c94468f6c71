"""Call limits of a judge's provider: concurrency, calls and tokens per time, and a circuit breaker.

Calls beyond a limit wait in line. A call fails at once only while the circuit breaker is open, or while the
provider has asked for a pause that is longer than a call should wait.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.lowlevel import RunVar

from otel_evals._internal.judges.judge import Call, Settle
from otel_evals._internal.model import Usage
from otel_evals._internal.util.calls import in_thread, of_this_loop
from otel_evals._internal.util.fork import renew_after_fork
from otel_evals._internal.util.redis_server import RedisServer, is_address, redis_server
from otel_evals.errors import ConfigError, JudgeUnavailableError, StoreError

_LONGEST_WAIT = 5.0
"""Seconds a call waits for the end of a provider's pause; it fails at once for a longer one."""
_POLL = 0.05
_UNITS = {1.0: ("s", "sec", "second"), 60.0: ("m", "min", "minute"), 3600.0: ("h", "hour")}
_SECONDS = {name: seconds for seconds, names in _UNITS.items() for name in names}
_RATE = re.compile(r"\s*(\d[\d_]*)\s*(?:/|per)\s*([a-z]+)\s*")


def parse_rate(rate: str, field: str) -> tuple[int, float]:
    """Return count and seconds of a rate such as `10/s`, `500/min` or `1_000 per hour`."""
    found = _RATE.fullmatch(rate)
    if found is None or found[2] not in _SECONDS or int(found[1]) < 1:
        raise ConfigError(field, f"must be a rate such as '10/s' or '500/min', not {rate!r}")
    return int(found[1]), _SECONDS[found[2]]


class CircuitBreaker:
    """Opens after failures in a row; after a cooldown, one trial call decides whether it closes.

    Not thread-safe: its user holds a lock. Times are seconds on the user's clock.
    """

    def __init__(self, failures: int, cooldown: float) -> None:
        self.failures = failures
        self._cooldown = cooldown
        self._failed_in_a_row = 0
        self._closed_to: float | None = None

    def wait(self, now: float) -> float:
        return 0.0 if self._closed_to is None else max(0.0, self._closed_to - now)

    def call_started(self, now: float) -> None:
        """Record a call; the trial of an open breaker is the only one for a cooldown."""
        if self._failed_in_a_row >= self.failures:
            self._closed_to = now + self._cooldown

    def call_failed(self, now: float) -> None:
        self._failed_in_a_row += 1
        self.call_started(now)

    def call_succeeded(self) -> None:
        self._failed_in_a_row = 0
        self._closed_to = None


@dataclass(slots=True)
class Taken:
    """The part of a window that one call takes."""

    time: float
    amount: int


class RateWindow:
    """Lets calls of at most `limit` start within any `length` seconds.

    Not thread-safe: its user holds a lock.
    """

    def __init__(self, limit: int, length: float) -> None:
        self.limit, self.length = limit, length
        self._taken: deque[Taken] = deque()

    def wait(self, now: float, amount: int) -> float:
        """Return the seconds until the amount fits; one above the limit waits for an empty window."""
        while self._taken and self._taken[0].time <= now - self.length:
            self._taken.popleft()
        excess = min(amount, self.limit) + sum(each.amount for each in self._taken) - self.limit
        wait = 0.0
        for each in self._taken:
            if excess <= 0:
                break
            excess -= each.amount
            wait = each.time + self.length - now
        return wait

    def take(self, now: float, amount: int) -> Taken:
        taken = Taken(now, min(amount, self.limit))
        self._taken.append(taken)
        return taken


class _SharedWindow:
    """A window of requests or tokens that processes share; without effect while the server is away."""

    def __init__(self, server: RedisServer, name: str, limit: int, length: float) -> None:
        self._server, self._name, self._limit, self._length = server, name, limit, length

    def take_request(self) -> float:
        """Take a place, or return the seconds to wait."""
        with suppress(StoreError):
            return self._server.admit(self._name, self._limit, self._length)
        return 0.0

    def take_tokens(self, now: float, amount: int) -> float:
        """Take tokens, or return the seconds to wait: the last window counts by what is left of it."""
        number, share = divmod(now / self._length, 1)
        with suppress(StoreError):
            before = self._server.value(f"{self._name}:{number - 1:.0f}") * (1 - share)
            if before + self._server.add(self._key(now), amount, 2 * self._length) <= self._limit:
                return 0.0
            self.add_tokens(now, -amount)
            return self._length * (1 - share)
        return 0.0

    def add_tokens(self, now: float, amount: int) -> None:
        """Correct the tokens taken at a time."""
        with suppress(StoreError):
            self._server.add(self._key(now), amount, 2 * self._length)

    def _key(self, now: float) -> str:
        return f"{self._name}:{now // self._length:.0f}"


@dataclass
class _Reservation:
    """What a call has taken: in this process by window, and of the shared tokens at a time."""

    taken: dict[str, Taken]
    shared_at: float
    used: int | None = None


class JudgeLimits:
    """Call limits of a provider. Share one object among the judges that use the provider.

    Args:
        concurrency: concurrent calls.
        requests: calls per time, such as `10/s` or `500/min`; no more start in any window of that length.
        tokens: tokens per time, in and out, such as `200_000/min`; estimated before a call, corrected
            after it if the server reports its usage.
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
            reservation = await self._reserve(call)
            try:
                yield lambda usage, cost: self._settle(reservation, usage)
            except JudgeUnavailableError as error:
                self._failed(error)
                raise
            finally:
                await self._correct(reservation)
            with self.lock:
                self._breaker.call_succeeded()

    def _queue(self) -> _LoopQueue:
        return of_this_loop(self._queues, lambda: _LoopQueue(self._concurrency))

    async def _reserve(self, call: Call) -> _Reservation:
        """Wait until every window has a place, first come first served; take it as the call starts."""
        wanted = {"requests": 1, "tokens": call.max_input_tokens // 3 + (call.max_output_tokens or 500)}
        async with self._queue().line:
            while True:
                with self.lock:
                    self._refuse_if_stopped()
                    now = self._clock()
                    waits = [window.wait(now, wanted[name]) for name, window in self._windows.items()]
                    wait = max([self._paused_until - now, *waits])
                at = time.time()
                if wait <= 0.0 and self._shared:
                    wait = await in_thread(self._take_shared, at, wanted)
                if wait <= 0.0:
                    with self.lock:
                        now = self._clock()
                        self._breaker.call_started(now)
                        windows = self._windows.items()
                        return _Reservation({name: w.take(now, wanted[name]) for name, w in windows}, at)
                await anyio.sleep(min(wait, _POLL))

    def _take_shared(self, at: float, wanted: dict[str, int]) -> float:
        """Take places in the shared windows, or return the seconds to wait for all."""
        tokens, requests = self._shared.get("tokens"), self._shared.get("requests")
        amount = min(wanted["tokens"], self._windows["tokens"].limit) if tokens else 0
        wait = tokens.take_tokens(at, amount) if tokens else 0.0
        if wait <= 0.0 and requests is not None:
            wait = requests.take_request()
            if wait > 0.0 and tokens is not None:
                tokens.add_tokens(at, -amount)
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

    def _settle(self, reservation: _Reservation, usage: Usage | None) -> None:
        if usage is not None:
            reservation.used = max(usage.total_tokens, 0)

    def _failed(self, error: JudgeUnavailableError) -> None:
        with self.lock:
            now = self._clock()
            pause = min(error.retry_after or 0.0, self._longest_pause)
            self._paused_until = max(self._paused_until, now + pause)
            self._breaker.call_failed(now)

    async def _correct(self, reservation: _Reservation) -> None:
        """Replace the estimated tokens by the used ones; an unknown use stays as estimated."""
        taken, used = reservation.taken.get("tokens"), reservation.used
        if taken is None or used is None:
            return
        with self.lock:
            difference, taken.amount = used - taken.amount, used
        if shared := self._shared.get("tokens"):
            with anyio.CancelScope(shield=True):
                await in_thread(shared.add_tokens, reservation.shared_at, difference)


def _shared(store: str | None, name: str, rates: dict[str, tuple[int, float]]) -> dict[str, _SharedWindow]:
    if store is None:
        return {}
    if not is_address(store, "limits.store"):
        raise ConfigError("limits.store", f"must be redis://HOST:PORT/NUMBER, not {store!r}")
    if not rates:
        raise ConfigError("limits.store", "needs `requests`, `tokens` or both: nothing else is shared")
    server = redis_server(store)
    return {what: _SharedWindow(server, f"limits:{name}:{what}", *rate) for what, rate in rates.items()}


class _LoopQueue:
    """An event loop's waiting calls: for a slot, then in line for a place in the windows."""

    def __init__(self, concurrency: int) -> None:
        self.slots = anyio.Semaphore(concurrency)
        self.line = anyio.Lock()
