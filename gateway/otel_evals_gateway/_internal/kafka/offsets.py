"""Which offsets may be committed: those before which everything is done with.

A trace has several messages, and an offset may lie between them: its run is done with, but an older one that
is not holds the offset back. After a crash only the rest of it would come again, and a part would be judged
for the whole. So each commit names, as its metadata, such traces; whoever reads on from it skips them.
"""

from __future__ import annotations

import base64
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

__all__ = ["Commit", "Offsets", "Taken", "tail"]

Partition = tuple[str, int]
"""Topic and number."""
_FORM = "otel-evals 1 "
_MOST = 500
"""Traces that a commit names at most: Kafka takes 4,096 bytes."""
_TAIL = 12


@dataclass(frozen=True, slots=True)
class Commit:
    """What to commit of a partition."""

    offset: int
    """That of the first message which is to come again."""
    done: frozenset[str] = frozenset()
    """Tails of the ids of traces that are done with, of which there are messages from that offset on."""
    upto: int = 0
    """Before which offset these messages are."""

    @property
    def metadata(self) -> str:
        """What a commit says of them."""
        tails = b"".join(bytes.fromhex(each) for each in sorted(self.done)[:_MOST])
        return f"{_FORM}{self.upto} {base64.b64encode(tails).decode()}" if tails else ""

    @classmethod
    def read(cls, offset: int, metadata: str) -> Commit:
        """A commit from its metadata; it names no traces where somebody else wrote that."""
        upto, _, encoded = metadata.removeprefix(_FORM).partition(" ")
        try:
            text = base64.b64decode(encoded, validate=True).hex()
            if metadata.startswith(_FORM):
                tails = frozenset(text[i : i + _TAIL] for i in range(0, len(text), _TAIL))
                return cls(offset, tails, int(upto))
        except ValueError:
            pass
        return cls(offset)


def tail(trace_id: str) -> str:
    """By what commits tell traces apart: the end of an id is random in every scheme of ids."""
    return trace_id[-_TAIL:]


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
        self._begun: set[str] = set()
        self._newest: dict[Partition, Commit] = {}
        self._before: dict[Partition, Commit] = {}
        self._read: dict[Partition, int] = {}
        self.known: frozenset[str] = frozenset()
        """Tails of the ids of traces that were done with before this member read on."""

    def __len__(self) -> int:
        return sum(map(len, self._taken.values()))

    @property
    def oldest_age(self) -> float:
        """Seconds since the oldest message was taken; 0 if there is none."""
        firsts = [messages[0].since for messages in self._taken.values() if messages]
        return self._clock() - min(firsts) if firsts else 0.0

    def read_on(self, partition: Partition, commit: Commit) -> None:
        """Note the commit from which a partition is read on."""
        self._before[partition] = self._newest[partition] = commit
        self._know()

    def _know(self) -> None:
        self.known = frozenset().union(*(commit.done for commit in self._before.values()))

    def take(
        self, partition: Partition, offset: int, traces: Collection[str], *, pending: bool = False
    ) -> Taken:
        """Note a message."""
        taken = Taken(offset, frozenset(traces), self._clock(), pending)
        self._taken.setdefault(partition, deque()).append(taken)
        self._read[partition] = offset + 1
        return taken

    def newest(self) -> dict[Partition, Taken]:
        """The newest message of each partition: `done` may look at those up to it."""
        return {partition: messages[-1] for partition, messages in self._taken.items() if messages}

    def done(self, upto: dict[Partition, Taken], open_traces: Collection[str]) -> dict[Partition, Commit]:
        """Forget what is done with; returns what to commit for each partition where that is news.

        Args:
            upto: what `newest` gave before the open traces were looked up.
            open_traces: traces that are not done with.
        """
        ends: dict[Partition, int] = {}
        for partition, last in upto.items():
            messages = self._taken.get(partition)
            while messages and messages[0].offset <= last.offset:
                first = messages[0]
                if first.pending or not first.traces.isdisjoint(open_traces):
                    break
                messages.popleft()
                ends[partition] = first.offset + 1
                self._begun |= first.traces
        return self._commits(ends)

    def _commits(self, ends: dict[Partition, int]) -> dict[Partition, Commit]:
        left = {place: {t for m in messages for t in m.traces} for place, messages in self._taken.items()}
        every = set().union(*left.values())
        # Of what was skipped, the rest is to be skipped again after another crash.
        self._begun = {t for t in every if t in self._begun or tail(t) in self.known}
        commits = {}
        for partition, traces in left.items():
            newest, before = self._newest.get(partition), self._before.get(partition)
            taken = self._taken[partition]
            offset = ends.get(partition) or (taken[0].offset if taken else self._newest[partition].offset)
            done, upto = frozenset(map(tail, traces & self._begun)), self._read[partition]
            if before and offset < before.upto:
                done, upto = done | before.done, max(upto, before.upto)
            if partition in ends or done != (newest.done if newest else frozenset()):
                commits[partition] = Commit(offset, done, upto if done else 0)
        self._newest |= commits
        return commits

    def forget(self, partitions: Iterable[Partition]) -> set[str]:
        """Forget partitions that another consumer has now; returns the traces that are not done with."""
        traces: set[str] = set()
        for partition in partitions:
            for noted in (self._newest, self._before, self._read):
                noted.pop(partition, None)
            for taken in self._taken.pop(partition, ()):
                traces |= taken.traces
        self._know()
        return traces
