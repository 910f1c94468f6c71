"""Collects the runs of each conversation until it has been idle, and keeps them for a while after.

Used on one thread. Bounded by count and bytes: the least recently active conversations are evicted first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, field
from math import inf

from otel_evals import semconv
from otel_evals._internal.model import Run
from otel_evals._internal.model.sizes import size_of_run
from otel_evals._internal.read.conversation import conversation_key

_REMEMBERED = 20_000
# Measured with runs of three operations and 2 KB messages.
_BYTES_PER_RUN = 500
_BYTES_PER_OPERATION = 2_000
_Key = tuple[str, str, str]


@dataclass(slots=True, eq=False)
class Conversation:
    """A conversation's runs and state."""

    ruled_out: bool
    """True if no rule can sample it; then only the ids of its last run are kept."""
    runs: dict[tuple[str, str], Run] = field(default_factory=dict)
    """By trace id and root span id."""
    last: float = 0.0
    """Time of its last run, on the caller's clock."""
    size: int = 0
    """Approximate bytes of its runs."""
    revisions: dict[str, int] = field(default_factory=dict)
    """Number of evaluations of the rules, by their `Rule.asked_with`."""
    source: Hashable = None
    """The source of runs that other processes passed on."""
    digest: str = ""
    """The `conversation_digest`, if it has a source."""


@dataclass(frozen=True, slots=True)
class DueConversation:
    """A conversation to evaluate rules for now."""

    conversation: Conversation
    asked_with: str
    """The `asked_with` of these rules."""
    lost: str | None = None
    """The reason it cannot be scored: it was evicted before it was idle."""


class Conversations:
    """Collects runs by service, conversation id and user.

    Args:
        idle: seconds without a run after which rules are evaluated, by their `asked_with`.
        keep: seconds without a run after which a conversation is deleted, once all rules were evaluated.
        most: maximum number of conversations.
        most_bytes: maximum memory of their runs, approximately.
    """

    def __init__(self, idle: Mapping[str, float], *, keep: float, most: int, most_bytes: int) -> None:
        self._idle = idle
        self._keep = keep
        self._most = most
        self._most_bytes = most_bytes
        self._all: OrderedDict[_Key, Conversation] = OrderedDict()
        self._waiting: dict[str, OrderedDict[_Key, Conversation]] = {each: OrderedDict() for each in idle}
        self._revisions: OrderedDict[_Key, dict[str, int]] = OrderedDict()
        self._bytes = 0
        self._forgotten: list[Conversation] = []

    def __len__(self) -> int:
        return len(self._all)

    @property
    def waiting(self) -> int:
        """Number of conversations with rules that have not been evaluated since their last run."""
        return max(map(len, self._waiting.values()), default=0)

    @property
    def next_due(self) -> float:
        """The time at which the next conversation is idle, on the caller's clock; infinity if none waits."""
        firsts = [(each, next(iter(waiting.values()))) for each, waiting in self._waiting.items() if waiting]
        return min((first.last + self._idle[each] for each, first in firsts), default=inf)

    def add(self, run: Run, now: float, *, ruled_out: bool) -> Conversation:
        """Add a run that has a conversation id, or replace the run of the same root."""
        key = conversation_key(run)
        conversation = self._all.get(key)
        if conversation is None:
            conversation = Conversation(ruled_out, revisions=self._revisions.pop(key, {}))
        if ruled_out:
            run, former = ids_of(run), conversation.runs.popitem()[1] if conversation.runs else None
        else:
            former = conversation.runs.get((run.trace_id, run.root_span_id))
        conversation.runs[run.trace_id, run.root_span_id] = run
        grown = _size(run) - (0 if former is None else _size(former))
        conversation.size += grown
        self._bytes += grown
        conversation.last = now
        for each in (self._all, *self._waiting.values()):
            each[key] = conversation
            each.move_to_end(key)
        return conversation

    def due(self, now: float, limit: int) -> list[DueConversation]:
        """Take the conversations that are idle by now, at most `limit`."""
        self._forget_old(now)
        found: list[DueConversation] = []
        for asked_with, waiting in self._waiting.items():
            while waiting and len(found) < limit:
                key, conversation = next(iter(waiting.items()))
                if conversation.last + self._idle[asked_with] > now:
                    break
                found.append(DueConversation(self._take(key, asked_with), asked_with))
        return found

    def forgotten(self) -> list[Conversation]:
        """The conversations that were deleted since the last call."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def _take(self, key: _Key, asked_with: str) -> Conversation:
        conversation = self._waiting[asked_with].pop(key)
        conversation.revisions[asked_with] = conversation.revisions.get(asked_with, 0) + 1
        return conversation

    def _forget_old(self, now: float) -> None:
        while self._all:
            key, conversation = next(iter(self._all.items()))
            if conversation.last + self._keep > now or self.waits(key):
                return
            self._drop(key)

    def restore(self, run: Run, now: float, asked: Mapping[str, int], waits: Collection[str]) -> Conversation:
        """Add a run from a process that has ended.

        Args:
            run: the run.
            now: on the caller's clock.
            asked: number of evaluations of the rules for its conversation, by their `asked_with`.
            waits: the `asked_with` of rules not yet evaluated for it.
        """
        key = conversation_key(run)
        waited = self.waits(key)
        conversation = self.add(run, now, ruled_out=False)
        for each, waiting in self._waiting.items():
            known, stored = conversation.revisions.get(each, 0), asked.get(each, 0)
            conversation.revisions[each] = max(known, stored)
            # The run that was written last has the current state.
            if not ((known >= stored and each in waited) or (stored >= known and each in waits)):
                waiting.pop(key)
        return conversation

    def receive(
        self, run: Run, now: float, *, ruled_out: bool, judged: bool, read_before: bool
    ) -> Conversation | None:
        """Add a run from another process; None if it is known already.

        Args:
            run: the run.
            now: on the caller's clock.
            ruled_out: True if no rule can sample the conversation.
            judged: True if another process judged the conversation with this run.
            read_before: True if another process may have judged it. Each revision has a new run, so there
                are at most as many revisions as runs.
        """
        key = conversation_key(run)
        known = self._all.get(key)
        if known is not None:
            if (run.trace_id, run.root_span_id) in known.runs:
                return None
            if ruled_out and not known.ruled_out:
                self._rule_out(known)
            ruled_out = known.ruled_out
        waited = self.waits(key)
        conversation = self.add(run, now, ruled_out=ruled_out)
        revisions = conversation.revisions
        for each, waiting in self._waiting.items():
            if judged or read_before:
                revisions[each] = max(revisions.get(each, 0), len(conversation.runs) - (not judged))
            if judged and each not in waited:
                waiting.pop(key)
        return conversation

    def _rule_out(self, conversation: Conversation) -> None:
        conversation.ruled_out = True
        conversation.runs.clear()
        self._bytes -= conversation.size
        conversation.size = 0

    @property
    def open_digests(self) -> set[str]:
        """Digests of the waiting conversations of other processes, without those that are only counted."""
        waiting = (each for conversations in self._waiting.values() for each in conversations.values())
        return {each.digest for each in waiting if each.digest and not each.ruled_out}

    def forget(self, sources: Collection[Hashable]) -> None:
        """Delete the conversations of these sources, which another process gathers now."""
        self._delete([key for key, each in self._all.items() if each.source in sources])

    def waits(self, key: _Key) -> tuple[str, ...]:
        """Return the `asked_with` of the rules to evaluate for a conversation when it is idle."""
        return tuple(asked_with for asked_with, each in self._waiting.items() if key in each)

    def clear(self) -> None:
        self._delete(list(self._all))

    def _delete(self, keys: Collection[_Key]) -> None:
        for key in keys:
            for each in self._waiting.values():
                each.pop(key, None)
            self._drop(key)

    def make_room(self) -> list[DueConversation]:
        """Evict the least recently active conversations beyond the bounds; returns the lost evaluations."""
        lost: list[DueConversation] = []
        while len(self._all) > self._most or self._bytes > self._most_bytes:
            few = self._bytes > self._most_bytes
            reason = "too_many_conversation_bytes" if few else "too_many_conversations"
            key = next(iter(self._all))
            lost += [DueConversation(self._take(key, each), each, reason) for each in self.waits(key)]
            self._drop(key)
        return lost

    def _drop(self, key: _Key) -> None:
        """Delete a conversation, but remember its revisions."""
        conversation = self._all.pop(key)
        self._bytes -= conversation.size
        self._forgotten.append(conversation)
        self._revisions[key] = conversation.revisions
        if len(self._revisions) > _REMEMBERED:
            self._revisions.popitem(last=False)


def ids_of(run: Run) -> Run:
    """Return a run with nothing but its ids."""
    service = run.resource.get(semconv.SERVICE_NAME)
    return Run(
        trace_id=run.trace_id,
        root_span_id=run.root_span_id,
        root_kind=run.root_kind,
        conversation_id=run.conversation_id,
        user_id=run.user_id,
        resource={} if service is None else {semconv.SERVICE_NAME: service},
        start_time=run.start_time,
        trace_flags=run.trace_flags,
    )


def _size(run: Run) -> int:
    """Return approximate bytes of a run; its spans count twice, since they are parsed."""
    ids = len(run.conversation_id or "") + len(run.user_id or "")
    return _BYTES_PER_RUN + ids + _BYTES_PER_OPERATION * len(run.operations) + 2 * size_of_run(run)
