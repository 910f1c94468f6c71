"""Exchanges the counts of a rate limit with other processes through a server, in the background.

Twice a second, a thread in each process writes how many runs arrived and were sampled in each slice of its
window, and reads the other processes' counts. No decision about a run waits for the server.

While the server is unavailable, each process assumes the others continue at their last known rate. Exchanges
write counts, not increments: repeating one changes nothing, and a server that lost its data has it again
after the next one.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any
from uuid import uuid4

from otel_evals._internal.redis_server import PREFIX, RedisServer
from otel_evals._internal.util.fork import renew_after_fork
from otel_evals.errors import StoreError

EXCHANGE_SECONDS = 0.5

Counts = Mapping[int, tuple[float, float]]
"""Numbers of arrived and of sampled runs, by slice."""


class SharedCounts:
    """Counts of one window in this process, and in all others; their clocks should agree within seconds."""

    def __init__(
        self, server: RedisServer, name: str, slices: int, seconds: float, clock: Callable[[], float]
    ) -> None:
        self._server = server
        self._name = f"{PREFIX}rate:{name}:{seconds:g}"
        self._slices, self._seconds, self._clock = slices, seconds, clock
        self.lock = threading.Lock()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Start again as another process, without counts; the next run starts the thread."""
        self.lock = threading.Lock()
        self._id = uuid4().hex
        self._own: dict[int, list[int]] = {}
        self._thread: threading.Thread | None = None
        self.others: Counts = {}
        """Counts of the others as of the last exchange; replaced, never changed."""

    def count(self, number: int, sampled: bool) -> None:
        with self.lock:
            found = self._own.setdefault(number, [0, 0])
            found[0] += 1
            found[1] += sampled
        if self._thread is None:
            self._start()

    def totals(self) -> dict[int, tuple[float, float]]:
        with self.lock:
            own = {number: (counts[0], counts[1]) for number, counts in self._own.items()}
        return {
            number: (here[0] + there[0], here[1] + there[1])
            for number in sorted(own.keys() | self.others.keys())
            for here, there in [(own.get(number, (0, 0)), self.others.get(number, (0, 0)))]
        }

    def exchange(self) -> None:
        latest = int(self._clock() / self._seconds)
        numbers = range(latest - self._slices, latest + 1)
        with self.lock:
            self._own = {number: own for number, own in self._own.items() if number >= numbers[0]}
            own = {number: f"{counts[0]} {counts[1]}" for number, counts in self._own.items()}
        try:
            found = self._server.call(lambda client: self._exchanged(client, own, numbers))
        except StoreError:
            self.others = _as_before(self.others, numbers)
        else:
            self.others = {number: self._sum(counts) for number, counts in found.items() if counts}

    def _exchanged(self, client: Any, own: Mapping[int, str], numbers: range) -> dict[int, Mapping[str, str]]:
        pipe = client.pipeline(transaction=False)
        for number, counts in own.items():
            pipe.hset(f"{self._name}:{number}", self._id, counts)
            pipe.expire(f"{self._name}:{number}", int(self._seconds * self._slices * 2))
        for number in numbers:
            pipe.hgetall(f"{self._name}:{number}")
        return dict(zip(numbers, pipe.execute()[2 * len(own) :], strict=True))

    def _sum(self, counts: Mapping[str, str]) -> tuple[float, float]:
        pairs = [text.partition(" ") for id, text in counts.items() if id != self._id]
        return sum(int(arrived) for arrived, _, _ in pairs), sum(int(sampled) for _, _, sampled in pairs)

    def _start(self) -> None:
        with self.lock:
            if self._thread is not None:
                return
            self._thread = threading.Thread(
                target=_exchange_until_gone, args=(weakref.ref(self),), name="otel-evals-shared", daemon=True
            )
            try:
                self._thread.start()
            except RuntimeError:  # no thread available, or Python is exiting: count alone
                return


def _as_before(others: Counts, numbers: range) -> Counts:
    """Fill each slice after the last known one with the mean of the known ones."""
    kept = {number: counts for number, counts in others.items() if number >= numbers[0]}
    if not kept:
        return {}
    last = max(kept)
    length = max(1, last - min(kept))  # the last one may be incomplete
    whole = [counts for number, counts in kept.items() if number < last] or list(kept.values())
    mean = tuple(sum(counts[i] for counts in whole) / length for i in (0, 1))
    return kept | {number: (mean[0], mean[1]) for number in numbers if number >= last}


def _exchange_until_gone(counts: weakref.ref[SharedCounts]) -> None:
    while True:
        found = counts()
        if found is None or found._thread is not threading.current_thread():
            return
        found.exchange()
        del found
        time.sleep(EXCHANGE_SECONDS)
