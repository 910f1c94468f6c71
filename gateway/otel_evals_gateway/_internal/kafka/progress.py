"""Which offsets can be committed: the first message of each unfinished trace holds back its partition.

A new reader begins at a committed offset, so it gets every unfinished trace from its first message on.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from otel_evals.sdk.pipeline import Source
from otel_evals_gateway._internal.scoring_engine import ScoringEngine

Partition = tuple[str, int]
"""Topic and number."""


@dataclass(slots=True, eq=False)
class Reading:
    """A trace of which messages were read and that is not finished."""

    began: float
    """When its first message was read, on the caller's clock."""
    last: float
    """The time of its last message, by its partition's clock."""
    put: float | None = None
    """When its last items were given to the engine; None while they are on their way."""


class Progress:
    """The unfinished traces of each partition. Used on the consumer's thread, except `last`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._next: dict[Partition, int] = {}
        """The offset after the last message that was read."""
        self._first: dict[Partition, dict[str, int]] = {}
        """The first offset of each unfinished trace, smallest first."""
        self._traces: dict[str, Reading] = {}

    def __len__(self) -> int:
        """Count the messages that were read and cannot be committed."""
        return sum(end - self.offset(place) for place, end in self._next.items())

    @property
    def oldest_age(self) -> float:
        """Seconds since the first message of the oldest unfinished trace was read; 0 if there is none."""
        return max((self._clock() - trace.began for trace in list(self._traces.values())), default=0.0)

    def last(self, trace_id: str) -> float | None:
        """Return the time of a trace's last message; None if it is unknown. Any thread may call it."""
        trace = self._traces.get(trace_id)
        return None if trace is None else trace.last

    def take(self, place: Partition, offset: int, traces: Iterable[str], at: float) -> None:
        """Note a message with items of these traces, which are on their way to the engine."""
        self._next[place] = offset + 1
        first = self._first.setdefault(place, {})
        for trace_id in traces:
            # Later messages of a trace hold nothing back that its first does not.
            first.setdefault(trace_id, offset)
            trace = self._traces.setdefault(trace_id, Reading(self._clock(), at))
            trace.last, trace.put = max(trace.last, at), None

    def put(self, traces: Iterable[str], when: float) -> None:
        """Note that the engine has the items of traces from then on, on the caller's clock."""
        for trace_id in traces:
            if trace_id in self._traces:
                self._traces[trace_id].put = when

    def finish(self, trace_id: str, when: float) -> None:
        """Note that nothing was left to do for the items of a trace that the engine had by then."""
        trace = self._traces.get(trace_id)
        # Items that were put later may belong to it: it is reported again.
        if trace is not None and trace.put is not None and trace.put <= when:
            self._remove(trace_id)

    def _remove(self, trace_id: str) -> None:
        self._traces.pop(trace_id, None)
        for first in self._first.values():
            first.pop(trace_id, None)

    def offset(self, place: Partition) -> int:
        """Return the offset to commit for a partition; negative if nothing was read of it."""
        first = self._first.get(place)
        return next(iter(first.values())) if first else self._next.get(place, -1)

    def end(self, place: Partition) -> int:
        """Return the offset after the last message that was read; negative if none was."""
        return self._next.get(place, -1)

    def forget(self, places: Collection[Partition]) -> set[str]:
        """Forget partitions that another member has now; returns their unfinished traces."""
        gone: set[str] = set()
        for place in places:
            self._next.pop(place, None)
            gone.update(self._first.pop(place, ()))
        for trace_id in gone:
            self._remove(trace_id)
        return gone


class _Done(NamedTuple):
    trace_id: str
    when: float
    put: int
    """Number of items that the engine had been given by then; some may be of this trace."""


class Reports(Source):
    """Takes the engine's reports of done traces on its thread, for `progress` on the consumer's."""

    scoring: ScoringEngine

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._waiting: deque[_Done] = deque()

    def done(self, trace_id: str) -> bool:
        self._waiting.append(_Done(trace_id, time.monotonic(), self.scoring.engine.intake.put))
        return True

    def handle(self) -> None:
        """Record finished traces."""
        taken = self.scoring.engine.intake.taken
        for _ in range(len(self._waiting)):
            report = self._waiting.popleft()
            if taken < report.put:
                self._waiting.append(report)  # later items are on their way
            else:
                self._progress.finish(report.trace_id, report.when)
