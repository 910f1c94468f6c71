"""Offsets to commit: an offset is committed once everything before it is scored and delivered.

A trace has several messages, and the committed offset may be between them: an older unfinished trace holds
the offset back while a later run is finished. After a crash only the rest of that run would be read again,
and judged as a whole. Therefore each commit names such finished traces in its metadata, with the offset up to
which they were judged, and the next reader only remembers their messages before that. While there are too
many to name, nothing is committed, and the next reader gets the whole traces. A commit also names an offset
about a minute back, from which the next reader learns the spans of finished runs, to recognise repeated spans
and to join late ones.

In a topic of conversations, a message's "trace" is its conversation, a commit names all finished ones from
its offset on, and the offset is as far back as conversations are kept.
"""

from __future__ import annotations

import base64
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

Partition = tuple[str, int]
"""Topic and number."""
_FORM = "otel-evals 1 "
_MOST = 500
"""Traces that a commit names at most: Kafka takes 4,096 bytes."""
_TAIL = 12
_BACK_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Commit:
    """A partition's commit."""

    offset: int
    """The first message to read again."""
    done: frozenset[str] = frozenset()
    """Tails of the ids of finished traces with messages from that offset on."""
    upto: int = 0
    """The offset after the last of these messages."""
    back: int = 0
    """The offset from which to learn the spans of finished runs; at most `offset`."""

    @property
    def metadata(self) -> str:
        tails = b"".join(bytes.fromhex(each) for each in sorted(self.done)[:_MOST])
        return f"{_FORM}{self.back} {self.upto} {base64.b64encode(tails).decode()}"

    @classmethod
    def read(cls, offset: int, metadata: str) -> Commit:
        """Read a commit from its metadata; only the offset counts if another program wrote it."""
        try:
            if metadata.startswith(_FORM):
                back, upto, encoded = metadata.removeprefix(_FORM).split(" ")
                text = base64.b64decode(encoded, validate=True).hex()
                tails = frozenset(text[i : i + _TAIL] for i in range(0, len(text), _TAIL))
                return cls(offset, tails, int(upto), min(int(back), offset))
        except ValueError:
            pass
        return cls(offset, back=offset)


def tail(trace_id: str) -> str:
    """Shorten a trace id for commits; its end is random in every id scheme."""
    return trace_id[-_TAIL:]


@dataclass(slots=True, eq=False)
class Taken:
    """A message that was read."""

    offset: int
    traces: frozenset[str]
    """Ids of its traces that may be judged."""
    since: float
    pending: bool = False
    """True while it is being written to the dead-letter topic."""


class Offsets:
    """Uncommitted messages by partition, in the order of their offsets."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, conversations: Mapping[str, float] | None = None
    ) -> None:
        self._clock = clock
        self._conversations = conversations or {}
        """Topics of conversations, with the seconds for which these are kept."""
        self._taken: dict[Partition, deque[Taken]] = {}
        self._begun: set[str] = set()
        self._judged_to: dict[tuple[Partition, str], int] = {}
        """The offset up to which the messages of a begun trace were judged."""
        self._newest: dict[Partition, Commit] = {}
        self._before: dict[Partition, Commit] = {}
        self._ends: dict[Partition, int] = {}
        """The offset after the last finished message, until it is committed."""
        self._read: dict[Partition, int] = {}
        self._times: dict[Partition, deque[tuple[float, int]]] = {}
        """Times and offsets of messages, at least a second apart."""
        self.known: frozenset[str] = frozenset()
        """Tails of the ids of traces that were finished before this member started to read."""
        self.held_back = False
        """True while too many finished traces have messages behind an unfinished one to commit anything."""

    def __len__(self) -> int:
        return sum(map(len, self._taken.values()))

    def start_of(self, partition: Partition) -> int:
        """Return the committed offset from which a partition is read; negative if there is none."""
        before = self._before.get(partition)
        return -1 if before is None else before.offset

    @property
    def oldest_age(self) -> float:
        """Seconds since the oldest message was read; 0 without messages. Conversations wait to be idle."""
        taken = [messages for place, messages in self._taken.items() if place[0] not in self._conversations]
        firsts = [messages[0].since for messages in taken if messages]
        return self._clock() - min(firsts) if firsts else 0.0

    def judged(self, partition: Partition, offset: int, conversation: str) -> bool:
        """Return True if an earlier reader judged the conversation with this message."""
        before = self._before.get(partition)
        if before is None:
            return False
        return offset < before.offset or (offset < before.upto and tail(conversation) in before.done)

    def read_on(self, partition: Partition, commit: Commit) -> None:
        """Note the commit from which a partition is read."""
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

    def note_time(self, partition: Partition, offset: int, at: float) -> None:
        """Note the time of a message, in the order of the offsets."""
        times = self._times.setdefault(partition, deque())
        if not times or at >= times[-1][0] + 1.0:
            times.append((at, offset))

    def _back(self, partition: Partition, offset: int) -> int:
        """Return the offset of a message about a minute before the one at an offset."""
        times = self._times.get(partition) or deque()
        seconds = self._conversations.get(partition[0], _BACK_SECONDS)
        until = max((at for at, before in times if before <= offset), default=0.0) - seconds
        while len(times) > 1 and times[1][0] <= until:
            times.popleft()
        return min(times[0][1], offset) if times else offset

    def newest(self) -> dict[Partition, Taken]:
        """Return the newest message of each partition, as a bound for `done`."""
        return {partition: messages[-1] for partition, messages in self._taken.items() if messages}

    def done(self, upto: dict[Partition, Taken], open_traces: Collection[str]) -> dict[Partition, Commit]:
        """Forget finished messages up to earlier ones from `newest`; return the new commits."""
        finished = {
            partition: self._finished(partition, last.offset, open_traces)
            for partition, last in upto.items()
            if partition[0] in self._conversations and self._taken.get(partition)
        }
        for partition, last in upto.items():
            messages = self._taken.get(partition)
            while messages and messages[0].offset <= last.offset:
                first = messages[0]
                if first.pending or not first.traces.isdisjoint(open_traces):
                    break
                messages.popleft()
                self._ends[partition] = first.offset + 1
                self._begun |= first.traces
        return self._commits(finished, open_traces)

    def _finished(self, partition: Partition, last: int, open_ones: Collection[str]) -> dict[str, int]:
        """Return the tails of finished conversations, with the offset after the newest of their messages."""
        newest = {each: taken.offset for taken in self._taken[partition] for each in taken.traces}
        return {
            tail(each): offset + 1
            for each, offset in newest.items()
            if offset <= last and each not in open_ones
        }

    def _commits(
        self,
        finished: Mapping[Partition, Mapping[str, int]],
        open_traces: Collection[str],
    ) -> dict[Partition, Commit]:
        left = {place: {t for m in messages for t in m.traces} for place, messages in self._taken.items()}
        every = set().union(*left.values())
        # The rest of a skipped trace has to be skipped again after another crash.
        self._begun = {t for t in every if t in self._begun or tail(t) in self.known}
        self._judged_to = {key: end for key, end in self._judged_to.items() if key[1] in self._begun}
        commits = {}
        for partition, traces in left.items():
            newest, before = self._newest.get(partition), self._before.get(partition)
            taken = self._taken[partition]
            if (offset := self._ends.get(partition, -1)) < 0:
                offset = taken[0].offset if taken else self._newest[partition].offset
            done, upto = frozenset(map(tail, traces & self._begun)), self._read[partition]
            for trace_id in traces & self._begun:
                if trace_id in open_traces:  # late spans have opened it again
                    known_to = before.upto if before else upto
                    upto = min(upto, self._judged_to.get((partition, trace_id), known_to))
                else:
                    self._judged_to[partition, trace_id] = self._read[partition]
            if partition in finished:
                after = {each: end for each, end in finished[partition].items() if end > offset}
                done, upto = frozenset(after), max(after.values(), default=0)
            elif before and offset < before.upto:
                done, upto = done | before.done, max(upto, before.upto)
            if partition in self._ends or done != (newest.done if newest else frozenset()):
                back = self._back(partition, offset)
                commits[partition] = Commit(offset, done, upto if done else 0, back)
        # A trace may have messages in several partitions: all wait. A conversation may be scored again.
        self.held_back = any(len(c.done) > _MOST for place, c in commits.items() if place not in finished)
        if self.held_back:
            return {}
        self._newest |= commits
        self._ends.clear()
        return commits

    def forget(self, partitions: Iterable[Partition]) -> set[str]:
        """Forget partitions that another consumer has now; return their unfinished traces."""
        traces: set[str] = set()
        for partition in partitions:
            for noted in (self._newest, self._before, self._ends, self._read, self._times):
                noted.pop(partition, None)
            for taken in self._taken.pop(partition, ()):
                traces |= taken.traces
        self._know()
        return traces
