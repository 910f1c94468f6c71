"""Held spans: judged spans that wait for their scores within bounds of number, time and bytes.

`ScoringSpanExporter` holds the spans of this process, and the gateway those that it forwards. Scores come
from the engine's thread, spans from any thread of the application, which a signal handler or an asynchronous
exception may interrupt between two instructions. So there is no lock: each step is one operation on a dict,
a list or a deque, which the interpreter does not interrupt.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Generic, TypeVar

SWEEP_SECONDS = 0.25
"""Seconds between two looks at all held spans, whose deadlines may be unordered."""
_IDLE_SECONDS = 5.0
"""Seconds between two looks while nothing is held: an asynchronous exception may lose a wake-up."""
_MAX_PENDING = 10_000
_UNMEASURED = 64
"""Number of spans that may be held without being measured."""

Key = tuple[int, int]
"""Trace id and span id."""
_Item = TypeVar("_Item")


@dataclass(slots=True)
class _Pending:
    exporters: int
    """Number of exporters that take the attributes."""
    # A list as a counter: appending is atomic, adding to a number is not.
    takers: list[None] = field(default_factory=list)
    by_scorer: dict[str, tuple[int, Mapping[str, Any]]] = field(default_factory=dict)
    """Revision of each scorer's latest evaluation, and its attributes."""
    complete: bool = False

    @property
    def attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        # Copied in one step: the engine's thread may add a scorer meanwhile.
        for _, attributes in list(self.by_scorer.values()):
            found.update(attributes)
        return found


class PendingScores:
    """Attributes for spans that may be judged, until every exporter has taken them.

    A span is announced before it is exported; the engine adds scores and finishes it. Only announced spans
    are held, the newest `most`.
    """

    def __init__(self, most: int = _MAX_PENDING) -> None:
        self._most = most
        self._pending: dict[Key, _Pending] = {}
        self._listeners: list[Callable[[Key | None], object]] = []
        self._passing_until = -1
        self.open = True
        """Whether spans are held; False once scoring is shut down."""

    def listen(self, wake: Callable[[Key | None], object]) -> None:
        """Add an exporter: `wake` is called, on any thread, with a span that may pass, or None for all."""
        self._listeners.append(wake)

    def expect(self, trace_id: int, span_id: int) -> None:
        """Announce a span that may be judged."""
        key = trace_id, span_id
        if self._listeners and self.open and key not in self._pending:
            self._pending[key] = _Pending(len(self._listeners))
            if len(self._pending) > self._most:
                # Many at once: copying the keys costs the same for one.
                for oldest in list(self._pending)[: self._most // 10]:
                    self._pending.pop(oldest, None)

    def add(
        self, trace_id: int, span_id: int, scorer: str, revision: int, attributes: Mapping[str, Any]
    ) -> None:
        """Add an evaluation's attributes, unless those of a later revision are there already."""
        pending = self._pending.get((trace_id, span_id))
        if pending is not None and revision >= pending.by_scorer.get(scorer, (revision,))[0]:
            pending.by_scorer[scorer] = revision, attributes

    def release(self, trace_id: str, span_id: str) -> None:
        """Let a span pass, given by its ids in hex; malformed ids, as in odd files, are ignored."""
        try:
            key = int(trace_id, 16), int(span_id, 16)
        except ValueError:
            return
        self.finish(*key)

    def finish(self, trace_id: int, span_id: int) -> None:
        """Let a span pass: it gets no more attributes."""
        pending = self._pending.get((trace_id, span_id))
        if pending is not None:
            # Before the wake-up: the thread that it wakes looks at this.
            pending.complete = True
            self._wake((trace_id, span_id))

    def let_pass(self, until: int) -> None:
        """Let every span pass that ended by then, in nanoseconds since the Unix epoch."""
        self._passing_until = until
        self._wake(None)

    def close(self) -> None:
        """Let every span pass, now and later."""
        self.open = False
        self._wake(None)

    def _waits(self, key: Key, end_time: int) -> bool:
        """Return True if a span that ended then must be held."""
        pending = self._pending.get(key)
        return pending is not None and not pending.complete and not self.lets_pass(end_time)

    def lets_pass(self, end_time: int) -> bool:
        """Return True if a span that ended then need not wait."""
        # A time in the future is of a clock that was set back since: what ends now would pass until then.
        return not self.open or end_time <= self._passing_until <= time.time_ns()

    def take(self, key: Key, end_time: int, *, anyway: bool = False) -> Mapping[str, Any] | None:
        """Return a span's attributes for one exporter; None if the span must be held.

        They are deleted once every exporter has taken them. With `anyway`, they need not be complete.
        """
        pending = self._pending.get(key)
        if pending is None:
            # Not announced, dropped for others, or taken by all exporters: it passes as it is.
            return {}
        if not (pending.complete or anyway or self.lets_pass(end_time)):
            return None
        pending.takers.append(None)
        if len(pending.takers) >= pending.exporters:
            self._pending.pop(key, None)
        return pending.attributes

    def so_far(self, key: Key) -> Mapping[str, Any]:
        """Return a span's attributes, which stay for its exporters."""
        pending = self._pending.get(key)
        return {} if pending is None else pending.attributes

    def _wake(self, key: Key | None) -> None:
        for wake in self._listeners:
            wake(key)


@dataclass(frozen=True, slots=True)
class _Held(Generic[_Item]):
    item: _Item
    end_time: int
    deadline: float
    size: int


class Hold(Generic[_Item]):
    """The items that one exporter holds: at most `limit` of `max_bytes`, each for `seconds` after its end.

    `measure` returns an item's bytes, and `changed` is called when `release` may have something to return.
    """

    def __init__(
        self,
        scores: PendingScores,
        *,
        limit: int,
        seconds: float,
        max_bytes: int,
        measure: Callable[[_Item], int],
        changed: Callable[[], object],
    ) -> None:
        self._scores = scores
        self._limit, self._seconds, self._max_bytes = limit, seconds, max_bytes
        self._measure = measure
        self.changed = changed
        self._bytes = 0
        self._next_sweep = 0.0
        self.next_look = 0.0
        """When `release` has something to return without a change, in `time.monotonic` seconds."""
        self.clear()
        scores.listen(self._wake)

    def clear(self) -> None:
        """Forget all items, as a forked child does: the parent process has them."""
        self._held: dict[Key, _Held[_Item]] = {}
        self._complete: deque[Key] = deque()
        self._replaced: deque[tuple[_Item, Key]] = deque()
        self._all = False

    def __len__(self) -> int:
        return len(self._held)

    def has_capacity(self, size: int, count: int = 1) -> bool:
        """Return True if so many more may be held."""
        return len(self._held) + count <= self._limit and self._bytes + size <= self._max_bytes

    def put(self, key: Key, item: _Item, end_time: int) -> bool:
        """Hold an item until its scores are complete; returns False if it must pass."""
        # A few spans need no bound in bytes, and measuring one is expensive.
        size = self._measure(item) if len(self._held) >= _UNMEASURED else 0
        if not self.has_capacity(size):
            return False
        # A clock that was set back must not prolong the wait.
        left = self._seconds - max(0.0, time.time() - end_time / 1e9)
        before = self._held.get(key)
        if before is not None:  # sent again while held: the first one leaves with its scores so far
            self._replaced.append((before.item, key))
        deadline = time.monotonic() + max(0.0, left)
        self._held[key] = _Held(item, end_time, deadline, size)
        self._bytes += size  # not atomic; a sweep counts again
        if not self._scores._waits(key, end_time):
            self._complete.append(key)  # `_wake` came just before, and did not find it
            self.changed()
        elif before is not None or deadline < self.next_look:
            self.changed()
        return True

    def remove(self, key: Key) -> bool:
        """Take an item back; returns False if it was released meanwhile."""
        return self._held.pop(key, None) is not None

    def release(self, *, everything: bool = False) -> list[tuple[_Item, Mapping[str, Any]]]:
        """Return the items that are complete or overdue, or all, with their attributes."""
        now = time.monotonic()
        # Set before the held items are read: `put` wakes the thread for earlier deadlines.
        self.next_look = now + _IDLE_SECONDS
        ready: list[tuple[_Item, Mapping[str, Any]]] = []
        while self._replaced:
            item, key = self._replaced.popleft()
            # Not taken: the second one gets them all.
            ready.append((item, self._scores.so_far(key)))
        for key in self._candidates(now, everything):
            held = self._held.get(key)
            if held is None:
                continue
            anyway = everything or held.deadline <= now
            attributes = self._scores.take(key, held.end_time, anyway=anyway)
            # Of two threads, only the one that removes the item has it.
            if attributes is not None and self.remove(key):
                self._bytes -= held.size
                ready.append((held.item, attributes))
        oldest = next(iter(list(self._held.values())), None)
        if oldest is not None:
            self.next_look = min(now + SWEEP_SECONDS, oldest.deadline)
        return ready

    def _candidates(self, now: float, everything: bool) -> list[Key]:
        """Return complete and overdue items; all at each sweep."""
        keys = [self._complete.popleft() for _ in range(len(self._complete))]
        held = list(self._held.items())
        if everything or self._all or now >= self._next_sweep:
            self._all, self._next_sweep = False, now + SWEEP_SECONDS
            # Corrects what additions by several threads have lost.
            self._bytes = sum(each.size for _, each in held)
            return [key for key, _ in held]
        # Deadlines mostly rise in this order; the next sweep finds the others.
        return keys + [key for key, _ in takewhile(lambda pair: pair[1].deadline <= now, held)]

    def _wake(self, key: Key | None) -> None:
        if key is None:
            self._all = True
        elif key in self._held:
            self._complete.append(key)
        else:
            return
        self.changed()
