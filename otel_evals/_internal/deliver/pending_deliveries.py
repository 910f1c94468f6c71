"""Scored runs on their way to one destination: queued, being sent, or parked for another try."""

from __future__ import annotations

import math
from collections import Counter, deque
from dataclasses import dataclass, field

from otel_evals._internal.model import ScoredRun
from otel_evals._internal.model.runs import size_of_run


@dataclass(slots=True, eq=False)
class PendingDelivery:
    scored: ScoredRun
    left: ScoredRun
    """The redacted run, with the evaluations that are still to be sent."""
    kept: bool
    """True if it is put again later when it has to give way."""
    number: int = 0
    size: int = 0
    tries: int = 0
    attempts: int = 0
    """Tries without those that found the trace missing."""
    until: float = 0.0
    """When it is tried again, if it is parked."""
    first_try: float = math.inf
    lost: Counter[str] = field(default_factory=Counter)
    """Lost evaluations, by reason."""


class PendingDeliveries:
    """The queue and the parked scored runs of one destination, each bounded in number, both in bytes."""

    def __init__(self, queue_size: int, parked_size: int, max_bytes: int) -> None:
        self._queue_size = queue_size
        self._parked_size = parked_size
        self._queue: deque[PendingDelivery] = deque()
        self._parked: dict[int, PendingDelivery] = {}
        self._open: dict[int, PendingDelivery] = {}
        self._max_bytes = max_bytes
        self._bytes = 0
        self.accepted = 0
        """Number of the last scored run that was queued."""

    def __len__(self) -> int:
        """Return how many are on their way, including those being sent."""
        return len(self._open)

    @property
    def queued(self) -> int:
        """Number of those never tried."""
        return len(self._queue)

    @property
    def full(self) -> bool:
        return len(self._queue) >= self._queue_size or self._bytes >= self._max_bytes

    @property
    def capacity(self) -> int:
        """Number of further scored runs for which neither the queue nor the parked runs overflow.

        In bytes, they count as twice the mean of those here, because their sizes are not known yet.
        """
        slots, left = self._queue_size - len(self._open), self._max_bytes - self._bytes
        if self._bytes:
            slots = min(slots, left * len(self._open) // (2 * self._bytes))
        return max(0, slots)

    @property
    def oldest(self) -> int | None:
        # Numbers rise, and a dict keeps the order of insertion.
        return next(iter(self._open), None)

    def put(self, delivery: PendingDelivery) -> None:
        """Queue a scored run."""
        self.accepted += 1
        delivery.number, delivery.size = self.accepted, size_of_run(delivery.scored.run)
        self._open[self.accepted] = delivery
        self._bytes += delivery.size
        self._queue.append(delivery)

    def park(self, delivery: PendingDelivery, until: float) -> list[PendingDelivery]:
        """Keep a delivery until it is tried again; returns those that give way to it, the oldest first."""
        delivery.until = until
        self._parked[delivery.number] = delivery
        return [self._parked.pop(min(self._parked))] if len(self._parked) > self._parked_size else []

    def hasten(self, soonest: float) -> None:
        """Try parked deliveries again at this time, unless they are due before."""
        for delivery in self._parked.values():
            delivery.until = min(delivery.until, soonest)

    @property
    def next_due(self) -> float:
        """When the next parked one is due; infinity if none is parked."""
        return min((delivery.until for delivery in self._parked.values()), default=math.inf)

    def batch(self, size: int, now: float) -> list[PendingDelivery]:
        """Return the next to be sent: those due again, and at least half new ones if there are any."""
        # A backend without some traces must not starve the new scores.
        again = size if not self._queue else max(1, size // 2)
        due = sorted([each for each in self._parked.values() if each.until <= now], key=lambda d: d.until)
        taken = due[:again]
        for delivery in taken:
            del self._parked[delivery.number]
        while len(taken) < size and self._queue:
            taken.append(self._queue.popleft())
        return taken

    def done(self, delivery: PendingDelivery) -> None:
        """Remove a delivery that has arrived or is lost."""
        if self._open.pop(delivery.number, None) is not None:
            self._bytes -= delivery.size

    def clear(self) -> list[PendingDelivery]:
        """Remove and return all that are left, oldest first."""
        self._queue.clear()
        self._parked.clear()
        return list(self._open.values())
