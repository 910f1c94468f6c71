"""Runs that belong to one conversation, kept together until it falls idle, and for a while after.

Lives on one thread. Bounded by count and bytes: the conversations that went on least recently make room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_evals import semconv
from otel_evals.assembly.conversation import conversation_key
from otel_evals.engine.stories import Entry
from otel_evals.model import Run

__all__ = ["Conversation", "Conversations"]

_REMEMBERED = 20_000
# Measured with runs of three operations and 2 KB messages.
_BYTES_PER_RUN = 500
_BYTES_PER_OPERATION = 3_000
_Key = tuple[str, str]


@dataclass(slots=True, eq=False)
class Conversation:
    """What is known of one conversation."""

    ruled_out: bool
    """Whether no rule can pick it; then no more than the ids of its last run are kept."""
    runs: dict[tuple[str, str], Run] = field(default_factory=dict)
    """By trace id and root span id."""
    last: float = 0.0
    """When its last run came, on the caller's clock."""
    size: int = 0
    """Rough bytes of its runs."""
    revisions: dict[str, int] = field(default_factory=dict)
    """How often the rules of a unit were asked about it."""
    entries: dict[str, Entry] = field(default_factory=dict)
    """What each rule did with it, by the rule's name."""
    kept: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Where there is a store: what it has of each run."""


class Conversations:
    """Gathers runs by service and conversation.

    Args:
        idle: seconds without a run after which the rules of a unit are asked, by unit.
        keep: seconds without a run after which a conversation is forgotten, once all rules were asked.
        most: how many conversations are remembered.
        most_bytes: how much memory their runs may take, roughly.
        lose: called with a conversation that makes room before the rules of a unit were asked, the unit, and
            the reason.
        forgotten: called with each conversation that is not remembered any longer.
    """

    def __init__(
        self,
        idle: Mapping[str, float],
        *,
        keep: float,
        most: int,
        most_bytes: int,
        lose: Callable[[Conversation, str, str], None],
        forgotten: Callable[[Conversation], None] = lambda conversation: None,
    ) -> None:
        self._idle = idle
        self._keep = keep
        self._most = most
        self._most_bytes = most_bytes
        self._lose = lose
        self._forgotten = forgotten
        self._all: OrderedDict[_Key, Conversation] = OrderedDict()
        self._waiting: dict[str, OrderedDict[_Key, Conversation]] = {unit: OrderedDict() for unit in idle}
        self._revisions: OrderedDict[_Key, dict[str, int]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._all)

    @property
    def waiting(self) -> int:
        """Conversations that some rules have not been asked about since they last went on."""
        return max(map(len, self._waiting.values()), default=0)

    @property
    def next_due(self) -> float | None:
        """When the next conversation will have been idle for long enough; None when none waits."""
        firsts = [(unit, next(iter(each.values()))) for unit, each in self._waiting.items() if each]
        return min((first.last + self._idle[unit] for unit, first in firsts), default=None)

    def add(self, run: Run, now: float, *, ruled_out: bool) -> Conversation:
        """Take a run that tells its conversation's id; a run taken before is replaced."""
        key = conversation_key(run)
        conversation = self._all.get(key)
        if conversation is None:
            conversation = Conversation(ruled_out, revisions=self._revisions.pop(key, {}))
        if ruled_out:
            run, former = _ids_of(run), conversation.runs.popitem()[1] if conversation.runs else None
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

    def due(self, now: float, limit: int) -> list[tuple[Conversation, str]]:
        """Conversations that have been idle for long enough, and for which unit of rules; at most `limit`."""
        self._forget(now)
        found: list[tuple[Conversation, str]] = []
        for unit, waiting in self._waiting.items():
            while waiting and len(found) < limit:
                key, conversation = next(iter(waiting.items()))
                if conversation.last + self._idle[unit] > now:
                    break
                found.append((self._take(key, unit), unit))
        return found

    def _take(self, key: _Key, unit: str) -> Conversation:
        conversation = self._waiting[unit].pop(key)
        conversation.revisions[unit] = conversation.revisions.get(unit, 0) + 1
        return conversation

    def _forget(self, now: float) -> None:
        while self._all:
            key, conversation = next(iter(self._all.items()))
            if conversation.last + self._keep > now or self.waits(key):
                return
            self._drop(key)

    def restore(self, run: Run, now: float, asked: Mapping[str, int], waits: Collection[str]) -> Conversation:
        """Take a run of a process that has ended.

        Args:
            run: the run.
            now: on the caller's clock.
            asked: how often the rules of each unit had been asked about its conversation.
            waits: units that were to be asked about it.
        """
        key = conversation_key(run)
        waited = self.waits(key)
        conversation = self.add(run, now, ruled_out=False)
        for unit, waiting in self._waiting.items():
            known, told = conversation.revisions.get(unit, 0), asked.get(unit, 0)
            conversation.revisions[unit] = max(known, told)
            # Of two runs, the one that was written later knows better.
            if not ((known >= told and unit in waited) or (told >= known and unit in waits)):
                waiting.pop(key)
        return conversation

    def waits(self, key: tuple[str, str]) -> tuple[str, ...]:
        """The units that are to be asked about a conversation when it falls idle."""
        return tuple(unit for unit, each in self._waiting.items() if key in each)

    def clear(self) -> None:
        """Forget everything."""
        for key in list(self._all):
            for each in self._waiting.values():
                each.pop(key, None)
            self._drop(key)

    def make_room(self) -> None:
        """Give up the oldest conversations beyond the bounds."""
        while len(self._all) > self._most or self._bytes > self._most_bytes:
            many = self._bytes <= self._most_bytes
            key = next(iter(self._all))
            lost = [(self._take(key, unit), unit) for unit in self.waits(key)]
            self._drop(key)
            for conversation, unit in lost:
                self._lose(
                    conversation, unit, "too_many_conversations" if many else "too_many_conversation_bytes"
                )

    def _drop(self, key: _Key) -> None:
        """Forget a conversation, but not how often it was judged."""
        conversation = self._all.pop(key)
        self._bytes -= conversation.size
        self._forgotten(conversation)
        self._revisions[key] = conversation.revisions
        if len(self._revisions) > _REMEMBERED:
            self._revisions.popitem(last=False)


def _ids_of(run: Run) -> Run:
    service = run.resource.get(semconv.SERVICE_NAME)
    return Run(
        trace_id=run.trace_id,
        root_span_id=run.root_span_id,
        root_kind=run.root_kind,
        conversation_id=run.conversation_id,
        resource={} if service is None else {semconv.SERVICE_NAME: service},
        start_time=run.start_time,
        trace_flags=run.trace_flags,
    )


def _size(run: Run) -> int:
    """Rough bytes of a run: the texts of its spans and log records, as they came and as they were read."""
    texts, operations = 0, 0
    for operation in run.operations:
        operations += 1
        span = operation.span
        texts += _texts(span.attributes)
        for event in (*span.events, *span.logs):
            texts += 200 + _texts(event.attributes) + (0 if event.body is None else len(str(event.body)))
    return _BYTES_PER_RUN + _BYTES_PER_OPERATION * operations + 2 * texts


def _texts(attributes: Mapping[str, Any]) -> int:
    return sum(len(value) for value in attributes.values() if type(value) is str)
