"""Exchanges the counts of rate limits with other processes through a server, in the background.

Twice a second, a thread in each process writes how many runs of each stratum arrived and were sampled in each
slice of its window, and reads the other processes' counts. No decision about a run waits for the server.

While the server is unavailable, each process assumes the others continue at their last known rate. Exchanges
write counts, not increments: repeating one changes nothing, and a server that lost its data has it again
after the next one. Strata are written as hashes, since their names may be personal data.
"""

from __future__ import annotations

import json
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, TypeVar
from uuid import uuid4

from otel_evals._internal.redis_server import PREFIX, RedisServer
from otel_evals._internal.util.fork import renew_after_fork
from otel_evals.errors import StoreError

EXCHANGE_SECONDS = 0.5
_WHOLE_EVERY = 20
"""Exchanges of which one has the whole window; the others have its two latest slices, which still change."""

_T = TypeVar("_T")
Slices = Mapping[int, tuple[float, float]]
"""Numbers of arrived and of sampled runs of one stratum, by slice."""


class SharedCounts:
    """Counts of one window in this process, and in all others; their clocks should agree within seconds."""

    def __init__(
        self, server: RedisServer, name: str, slices: int, seconds: float, clock: Callable[[], float]
    ) -> None:
        self._server = server
        self._name = f"{PREFIX}counts:{name}:{seconds:g}"
        self._slices, self._seconds, self._clock = slices, seconds, clock
        self.lock = threading.Lock()
        self.renew()
        renew_after_fork(self)

    def renew(self) -> None:
        """Start again as another process, without counts; the next run starts the thread."""
        self.lock = threading.Lock()
        self._id = uuid4().hex
        self._own: dict[str, dict[int, list[int]]] = {}
        self._thread: threading.Thread | None = None
        self._exchanges = 0
        self.others: Mapping[str, Slices] = {}
        """Counts of the others by stratum, as of the last exchange; replaced, never changed."""

    def count(self, stratum: str, number: int, sampled: bool) -> None:
        with self.lock:
            found = self._own.setdefault(stratum, {}).setdefault(number, [0, 0])
            found[0] += 1
            found[1] += sampled
        if self._thread is None:
            self._start()

    def forget(self, stratum: str) -> None:
        with self.lock:
            self._own.pop(stratum, None)

    def totals(self, stratum: str) -> dict[int, tuple[float, float]]:
        with self.lock:
            own = {number: tuple(counts) for number, counts in self._own.get(stratum, {}).items()}
        others = self.others.get(stratum, {})
        return {
            number: (here[0] + there[0], here[1] + there[1])
            for number in sorted(own.keys() | others.keys())
            for here, there in [(own.get(number, (0, 0)), others.get(number, (0, 0)))]
        }

    def exchange(self) -> None:
        latest = int(self._clock() / self._seconds)
        oldest = latest - self._slices
        whole = self._exchanges % _WHOLE_EVERY == 0
        numbers = range(oldest if whole else latest - 1, latest + 1)
        own = self._recent(oldest, numbers)
        kept = {stratum: _since(slices, oldest) for stratum, slices in self.others.items()}
        try:
            found = self._server.call(lambda client: self._exchanged(client, own, numbers))
        except StoreError:
            self._exchanges = 0
            self.others = _as_before(kept, latest)
        else:
            self._exchanges += 1
            self.others = _replaced({} if whole else kept, found)

    def _recent(self, oldest: int, numbers: range) -> dict[int, str]:
        """Forget old slices; return the own counts of some slices as the server has them."""
        found: dict[int, dict[str, tuple[int, ...]]] = {}
        with self.lock:
            self._own = {stratum: left for stratum, own in self._own.items() if (left := _since(own, oldest))}
            for stratum, own in self._own.items():
                for number in own.keys() & set(numbers):
                    found.setdefault(number, {})[stratum] = tuple(own[number])
        return {number: json.dumps(counts, separators=(",", ":")) for number, counts in found.items()}

    def _exchanged(self, client: Any, own: Mapping[int, str], numbers: range) -> dict[int, list[str]]:
        pipe = client.pipeline(transaction=False)
        for number, counts in own.items():
            pipe.hset(f"{self._name}:{number}", self._id, counts)
            pipe.expire(f"{self._name}:{number}", int(self._seconds * self._slices * 2))
        for number in numbers:
            pipe.hgetall(f"{self._name}:{number}")
        answers = zip(numbers, pipe.execute()[2 * len(own) :], strict=True)
        return {number: [text for id, text in each.items() if id != self._id] for number, each in answers}

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


def _since(slices: Mapping[int, _T], oldest: int) -> dict[int, _T]:
    return {number: counts for number, counts in slices.items() if number >= oldest}


@lru_cache(maxsize=64)
def _decoded(text: str) -> Mapping[str, tuple[int, int]]:
    """Decode one process's counts of a slice, most of which are the same in every exchange."""
    return {stratum: (arrived, sampled) for stratum, (arrived, sampled) in json.loads(text).items()}


def _replaced(kept: Mapping[str, Slices], found: Mapping[int, list[str]]) -> dict[str, Slices]:
    others: dict[str, dict[int, tuple[float, float]]] = {
        stratum: {number: counts for number, counts in slices.items() if number not in found}
        for stratum, slices in kept.items()
    }
    for number, texts in found.items():
        for text in texts:
            for stratum, (arrived, sampled) in _decoded(text).items():
                slices = others.setdefault(stratum, {})
                before = slices.get(number, (0, 0))
                slices[number] = before[0] + arrived, before[1] + sampled
    return {stratum: slices for stratum, slices in others.items() if slices}


def _as_before(others: Mapping[str, Slices], latest: int) -> dict[str, Slices]:
    """Fill each slice after the last known one with the mean of the known ones, for each stratum."""
    known = {number for slices in others.values() for number in slices}
    if not known:
        return {}
    last = max(known)
    whole = range(min(known), last) or range(last, last + 1)  # the last one may be incomplete
    foretold = range(last, latest + 1)

    def mean(slices: Slices, which: int) -> float:
        return sum(slices[number][which] for number in whole if number in slices) / len(whole)

    return {
        stratum: {**slices, **dict.fromkeys(foretold, (mean(slices, 0), mean(slices, 1)))}
        for stratum, slices in others.items()
    }


def _exchange_until_gone(counts: weakref.ref[SharedCounts]) -> None:
    while True:
        found = counts()
        if found is None or found._thread is not threading.current_thread():
            return
        found.exchange()
        del found
        time.sleep(EXCHANGE_SECONDS)
