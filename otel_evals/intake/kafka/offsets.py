"""Which offsets may be committed: those before which everything is done with."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

__all__ = ["Offsets", "Taken"]

Partition = tuple[str, int]
"""Topic and number."""


@dataclass(slots=True, eq=False)
class Taken:
    """A message that was taken."""

    offset: int
    traces: frozenset[str]
    """Ids of the traces in it that may be judged."""
    since: float
    pending: bool = False
    """Whether something else is awaited: that it was written to the dead-letter topic."""


class Offsets:
    """Messages that were taken and not committed, by partition, in the order of their offsets.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._taken: dict[Partition, deque[Taken]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._taken.values()))

    @property
    def oldest_age(self) -> float:
        """Seconds since the oldest message was taken; 0 if there is none."""
        firsts = [messages[0].since for messages in self._taken.values() if messages]
        return self._clock() - min(firsts) if firsts else 0.0

    def take(
        self, partition: Partition, offset: int, traces: Collection[str], *, pending: bool = False
    ) -> Taken:
        """Note a message."""
        taken = Taken(offset, frozenset(traces), self._clock(), pending)
        self._taken.setdefault(partition, deque()).append(taken)
        return taken

    def newest(self) -> dict[Partition, Taken]:
        """The newest message of each partition: `done` may look at those up to it."""
        return {partition: messages[-1] for partition, messages in self._taken.items() if messages}

    def done(self, upto: dict[Partition, Taken], open_traces: Collection[str]) -> dict[Partition, int]:
        """Forget what is done with; returns the offset to commit for each partition where that is news.

        Args:
            upto: what `newest` gave before the open traces were looked up.
            open_traces: traces that are not done with.
        """
        commits: dict[Partition, int] = {}
        for partition, last in upto.items():
            messages = self._taken.get(partition)
            while messages and messages[0].offset <= last.offset:
                first = messages[0]
                if first.pending or not first.traces.isdisjoint(open_traces):
                    break
                messages.popleft()
                commits[partition] = first.offset + 1
        return commits

    def forget(self, partitions: Iterable[Partition]) -> set[str]:
        """Forget partitions that another consumer has now; returns the traces that are not done with."""
        traces: set[str] = set()
        for partition in partitions:
            for taken in self._taken.pop(partition, ()):
                traces |= taken.traces
        return traces
