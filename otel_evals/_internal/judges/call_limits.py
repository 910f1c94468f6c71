"""Call limits of a judge's provider: concurrency, calls and tokens per time, and a circuit breaker.

Calls beyond a limit wait in line. A call fails at once only while the circuit breaker is open, or while the
provider has asked for a pause that is longer than a call should wait.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
from anyio.lowlevel import RunVar

from otel_evals._internal.judges.judge import Call, Settle
from otel_evals._internal.model import Usage
from otel_evals._internal.util.calls import of_this_loop
from otel_evals._internal.util.fork import renew_after_fork
from otel_evals.errors import ConfigError, JudgeUnavailableError

_LONGEST_WAIT = 5.0
"""Seconds a call waits for the end of a provider's pause; it fails at once for a longer one."""
_LONGEST_PAUSE = 300.0
"""Seconds for which a provider's `Retry-After` is respected."""
# Waiting calls look again this often: a pause or a correction may change their wait.
_POLL = 0.05
_SECONDS = {
    **dict.fromkeys(("s", "sec", "second"), 1.0),
    **dict.fromkeys(("m", "min", "minute"), 60.0),
    **dict.fromkeys(("h", "hour"), 3600.0),
}
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
        # With enough failures in a row, this opens the breaker for a cooldown.
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
        # Oldest first: the wait is over when enough of them have left the window.
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


class JudgeLimits:
    """Call limits of a provider in this process. Share one object among the judges that use the provider.

    Args:
        concurrency: concurrent calls.
        requests: calls per time, such as `10/s` or `500/min`; no more start in any window of that length.
        tokens: tokens per time, in and out, such as `200_000/min`; estimated before a call, corrected
            after it if the server reports its usage.
        failures: unavailable answers in a row that open the breaker.
        cooldown: seconds for which an open breaker fails every call; then one call tries again.
        clock: seconds, monotonic.

    Raises:
        ConfigError: an option is out of range.
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
        if concurrency < 1 or failures < 1 or not cooldown > 0:
            wanted = "concurrency and failures must be at least 1, cooldown positive"
            raise ConfigError("limits", wanted)
        self._concurrency = concurrency
        self._requests = _window(requests, "limits.requests")
        self._tokens = _window(tokens, "limits.tokens")
        self._breaker = CircuitBreaker(failures, cooldown)
        self._paused_until = 0.0
        self._clock = clock
        self.renew()
        renew_after_fork(self)
        self._queues: RunVar[_LoopQueue] = RunVar("otel_evals._internal.judges.call_limits")

    def __getstate__(self) -> dict[str, Any]:
        # Locks cannot be pickled, but a judge is pickled with a scorer that runs in another process.
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
        # Before it queues: while the breaker is open, no call takes a slot or waits for one.
        with self.lock:
            self._refuse_if_stopped()
        queue = of_this_loop(self._queues, lambda: _LoopQueue(self._concurrency))
        async with queue.slots:
            # Only the first in line looks at the windows: small calls cannot overtake a large one for ever.
            async with queue.line:
                taken = await self._take_turn(call)
            try:
                yield lambda usage, cost: self._correct(taken, usage)
            # Other errors are no sign of an outage: they neither open nor close the breaker.
            except JudgeUnavailableError as error:
                self._failed(error)
                raise
            with self.lock:
                self._breaker.call_succeeded()

    async def _take_turn(self, call: Call) -> Taken:
        """Wait until every window has a place and take it; return the tokens taken."""
        # The bound counts bytes, of which about three make a token; 500 stand for an answer without a limit.
        tokens = call.max_input_tokens // 3 + (call.max_output_tokens or 500)
        while True:
            with self.lock:
                # Asked each time: the breaker may open, or a pause begin, while this call waits.
                self._refuse_if_stopped()
                now = self._clock()
                waits = (
                    self._paused_until - now,
                    self._requests.wait(now, 1),
                    self._tokens.wait(now, tokens),
                )
                # Taken under the same lock as looked at: threads with other loops share the windows.
                if max(waits) <= 0.0:
                    self._breaker.call_started(now)
                    self._requests.take(now, 1)
                    return self._tokens.take(now, tokens)
            await anyio.sleep(min(max(waits), _POLL))

    def _refuse_if_stopped(self) -> None:
        now = self._clock()
        wait, pause = self._breaker.wait(now), self._paused_until - now
        problem = f"the judge was unavailable {self._breaker.failures} times in a row"
        if wait <= 0.0 and pause > _LONGEST_WAIT:
            wait, problem = pause, "the judge's provider asked for a pause"
        if wait <= 0.0:
            return
        raise JudgeUnavailableError(f"{problem}: not asked again for {wait:.0f} s", retry_after=wait)

    def _correct(self, taken: Taken, usage: Usage | None) -> None:
        """Replace the estimated tokens by the used ones; an unknown use stays as estimated."""
        if usage is not None:
            with self.lock:
                taken.amount = max(usage.total_tokens, 0)

    def _failed(self, error: JudgeUnavailableError) -> None:
        with self.lock:
            now = self._clock()
            pause = min(error.retry_after or 0.0, _LONGEST_PAUSE)
            # A shorter pause that is asked for later does not end a longer one.
            self._paused_until = max(self._paused_until, now + pause)
            self._breaker.call_failed(now)


def _window(rate: str | None, field: str) -> RateWindow:
    # Without a rate, nothing stays in the window, and everything fits.
    return RateWindow(*parse_rate(rate, field)) if rate else RateWindow(sys.maxsize, 0.0)


class _LoopQueue:
    """An event loop's waiting calls: for a slot, then in line for a place in the windows."""

    def __init__(self, concurrency: int) -> None:
        self.slots = anyio.Semaphore(concurrency)
        self.line = anyio.Lock()
