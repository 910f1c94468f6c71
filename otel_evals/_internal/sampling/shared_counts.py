"""Exchanges the counts of rate limits with other processes through a server, in the background.

Twice a second, a thread in each process adds how many runs of each stratum arrived and were sampled in each
slice of its window, and reads the sums of all processes. No decision about a run waits for the server.

While the server is unavailable, each process assumes the others continue at their last known rate. A server
that lost its data gets a process's counts again. Strata are written as hashes, since their names may be
personal data.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any

from otel_evals._internal.util.fork import renew_after_fork
from otel_evals._internal.util.redis_server import PREFIX, RedisServer
from otel_evals.errors import StoreError

EXCHANGE_SECONDS = 0.5
Key = tuple[int, str]
"""A slice of the window, and a stratum."""
Counts = tuple[float, float]
"""Numbers of arrived and of sampled runs."""
_NONE: Counts = (0, 0)


class SharedCounts:
    """Counts of one window in this process, and in all others; their clocks should agree within seconds."""

    def __init__(
        self, server: RedisServer, name: str, slices: int, seconds: float, clock: Callable[[], float]
    ) -> None:
        self._server = server
        self._name = f"{PREFIX}:counts:{name}:{seconds:g}"
        self._slices, self._seconds, self._clock = slices, seconds, clock
        self.lock = threading.Lock()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Start again as another process, without counts; the next run starts the thread."""
        self.lock = threading.Lock()
        self._own: dict[Key, Counts] = {}
        self._sent: dict[Key, Counts] = {}
        self._thread: threading.Thread | None = None
        self._reads_all = True
        self.others: Mapping[Key, Counts] = {}
        """Counts of the others, as of the last exchange; replaced, never changed."""

    def count(self, stratum: str, number: int, sampled: bool) -> None:
        with self.lock:
            arrived, picked = self._own.get((number, stratum), _NONE)
            self._own[number, stratum] = arrived + 1, picked + sampled
        if self._thread is None:
            self._start()

    def forget(self, stratum: str) -> None:
        with self.lock:
            self._own = {key: counts for key, counts in self._own.items() if key[1] != stratum}

    def totals(self, stratum: str, latest: int) -> dict[int, Counts]:
        """Return the counts of all processes in the window that ends with a slice, by slice."""
        keys = [(number, stratum) for number in range(latest - self._slices, latest + 1)]
        with self.lock:
            own = [self._own.get(key, _NONE) for key in keys]
        sums = {key[0]: _sum(mine, self.others.get(key, _NONE)) for key, mine in zip(keys, own, strict=True)}
        return {number: counts for number, counts in sums.items() if counts[0]}

    def exchange(self) -> None:
        latest = int(self._clock() / self._seconds)
        oldest = latest - self._slices
        # The two latest slices still change.
        numbers = range(oldest if self._reads_all else latest - 1, latest + 1)
        with self.lock:
            self._own = own = {key: counts for key, counts in self._own.items() if key[0] >= oldest}
            self._sent = sent = {key: self._sent.get(key, _NONE) for key in own}
            new = {k: (c[0] - sent[k][0], c[1] - sent[k][1]) for k, c in own.items() if c != sent[k]}
        kept = {key: counts for key, counts in self.others.items() if key[0] >= oldest}
        try:
            found = self._server.call(lambda client: self._exchanged(client, new, numbers))
        except StoreError:
            self.others, self._reads_all = _as_before(kept, latest), True
            return
        sent.update({key: _sum(sent[key], counts) for key, counts in new.items()})
        others = {key: counts for key, counts in kept.items() if key[0] not in numbers}
        for key, (arrived, picked) in found.items():
            mine = sent.get(key, _NONE)
            if arrived < mine[0]:  # the server lost its data
                sent[key] = arrived, picked
            others[key] = max(0, arrived - mine[0]), max(0, picked - mine[1])
        self.others, self._reads_all = others, False

    def _exchanged(self, client: Any, new: Mapping[Key, Counts], numbers: range) -> dict[Key, Counts]:
        pipe = client.pipeline(transaction=False)
        for (number, stratum), counts in new.items():
            for what, count in zip(("a", "s"), counts, strict=True):
                pipe.hincrby(f"{self._name}:{number}", f"{stratum}:{what}", count)
            pipe.expire(f"{self._name}:{number}", int(self._seconds * self._slices * 2))
        for number in numbers:
            pipe.hgetall(f"{self._name}:{number}")
        found: defaultdict[Key, Counts] = defaultdict(lambda: _NONE)
        for number, answer in zip(numbers, pipe.execute()[3 * len(new) :], strict=True):
            for field, count in answer.items():
                stratum, _, what = field.rpartition(":")
                arrived, picked = found[number, stratum]
                found[number, stratum] = (int(count), picked) if what == "a" else (arrived, int(count))
        return found

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


def name_of(stratum: str) -> str:
    return blake2b(stratum.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _sum(one: Counts, other: Counts) -> Counts:
    return one[0] + other[0], one[1] + other[1]


def _as_before(others: Mapping[Key, Counts], latest: int) -> dict[Key, Counts]:
    """Fill each slice after the last known one with the mean of the known ones, for each stratum."""
    if not others:
        return {}
    first, last = min(others)[0], max(others)[0]
    known = max(1, last - first)  # the last one may be incomplete
    sums: defaultdict[str, Counts] = defaultdict(lambda: _NONE)
    for (number, stratum), counts in others.items():
        if number < last or first == last:
            sums[stratum] = _sum(sums[stratum], counts)
    means = {stratum: (counts[0] / known, counts[1] / known) for stratum, counts in sums.items()}
    foretold = {
        (number, stratum): mean for stratum, mean in means.items() for number in range(last, latest + 1)
    }
    return {**others, **foretold}


def _exchange_until_gone(counts: weakref.ref[SharedCounts]) -> None:
    while True:
        found = counts()
        if found is None or found._thread is not threading.current_thread():
            return
        found.exchange()
        del found
        time.sleep(EXCHANGE_SECONDS)
