"""Collects the runs of each conversation until it has been idle, then hands it on as one run.

Runs are kept for a while after that: if the conversation continues, it is judged again as a whole. Bounded by
count and bytes: the least recently active conversations are evicted first. Used on the engine's thread only.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from otel_evals import semconv
from otel_evals._internal.accounting.counters import LoggedEvaluation
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.model import Run
from otel_evals._internal.model.runs import size_of_run
from otel_evals._internal.read.conversation import as_conversation, conversation_key
from otel_evals._internal.sampling.consistent import conversation_number, is_sampled
from otel_evals._internal.sampling.decide import Decision
from otel_evals._internal.util.bounded_cache import BoundedCache
from otel_evals._internal.util.error_log import log_error

_logger = logging.getLogger(__name__)
_REMEMBERED = 20_000
_PAUSE = 0.02
"""Seconds between two checks of due conversations while the rules cannot take their evaluations."""
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
    """Number of evaluations of the rules, by their `Rule.group`."""
    unjudged: list[Run] = field(default_factory=list)
    """The runs since it was last judged by all rules."""
    logged: dict[str, LoggedEvaluation] = field(default_factory=dict)
    """Its entries in the trace log, by the rule's name."""


@dataclass(frozen=True, slots=True)
class DueConversation:
    """A conversation to evaluate rules for now."""

    run: Run
    """All of its runs, joined into one."""
    conversation: Conversation
    group: str
    """The group of these rules."""
    lost: str | None = None
    """The reason it cannot be scored: it was evicted before it was idle."""


class Conversations:
    """Collects runs by service, conversation id and user; all times are on the caller's clock.

    Args:
        config: rules and limits.
        ledger: logs what waits.
        waits: called with a run and True when it begins to wait, and with False when it no longer does.
    """

    def __init__(
        self, config: Config, ledger: Ledger, waits: Callable[[Run, bool], object] = lambda *_: None
    ) -> None:
        self.use_rules(config.rules)
        self._ledger, self._waits = ledger, waits
        self._keep = config.limits.conversation_keep
        self._most, self._most_bytes = config.limits.max_conversations, config.limits.max_bytes
        self._idle = {rule.group: rule.idle for rule in self._rules}
        self._all: OrderedDict[_Key, Conversation] = OrderedDict()
        self._waiting: dict[str, OrderedDict[_Key, Conversation]] = {g: OrderedDict() for g in self._idle}
        self._revisions: BoundedCache[_Key, dict[str, int]] = BoundedCache(_REMEMBERED)
        self._bytes = 0
        self.active = bool(self._rules)
        """True if any rule judges conversations."""

    def use_rules(self, rules: Sequence[Rule]) -> None:
        """Switch to other rules, which must have the same names and idle times."""
        self._rules = [rule for rule in rules if rule.scope == "conversation"]
        self._ceiling = max((rule.sampling.ceiling for rule in self._rules), default=0.0)

    @property
    def waiting(self) -> int:
        """Number of conversations that are not idle yet. May be read from any thread."""
        return max(map(len, self._waiting.values()), default=0)

    def next_due(self, now: float) -> float:
        """Return the time of the next call of `due`; infinity if no conversation waits."""
        # Each order is by the last activity: only its first conversation can be the next.
        firsts = [
            (group, next(iter(waiting.values()))) for group, waiting in self._waiting.items() if waiting
        ]
        due = min((first.last + self._idle[group] for group, first in firsts), default=inf)
        return max(due, now + _PAUSE)

    # --- in ---

    def take(self, run: Run, now: float) -> list[DueConversation]:
        """Take a closed run; returns the conversations that were evicted for it."""
        try:
            return self._take(run, now)
        except BaseException as error:
            self._fail(run, self._rules, error)
            return []

    def rules_out(self, run: Run) -> bool:
        """Return True if no rule can sample the run's conversation."""
        return not is_sampled(self._ceiling, conversation_number(run.conversation_id or ""))

    def _take(self, run: Run, now: float) -> list[DueConversation]:
        if not run.conversation_id:
            decisions = [Decision(rule, "not_sampled", "no_conversation_id") for rule in self._rules]
            self._ledger.decided(run, decisions)
            return []
        conversation = self._add(run, now, ruled_out=self.rules_out(run))
        self._ledger.trace_log.awaits_idle(run, self._logged(run, conversation))
        return self._evict()

    def _add(self, run: Run, now: float, *, ruled_out: bool) -> Conversation:
        """Add a run to its conversation, or replace the run of the same root."""
        key = conversation_key(run)
        conversation = self._all.get(key)
        if conversation is None:
            conversation = Conversation(ruled_out, revisions=self._revisions.pop(key, {}))
        place = run.trace_id, run.root_span_id
        if ruled_out:
            # A single run's ids are enough to count the conversation as not sampled.
            run, former = _ids_of(run), conversation.runs.popitem()[1] if conversation.runs else None
        else:
            former = conversation.runs.get(place)
            conversation.unjudged.append(run)
            # A run that is ruled out waits for nothing, and its source may forget it.
            self._waits(run, True)
        conversation.runs[place] = run
        grown = _size(run) - (0 if former is None else _size(former))
        conversation.size += grown
        self._bytes += grown
        conversation.last = now
        # All groups wait again: a conversation that continues is judged again as a whole.
        for each in (self._all, *self._waiting.values()):
            each[key] = conversation
            each.move_to_end(key)
        return conversation

    def _logged(self, run: Run, conversation: Conversation) -> Iterator[LoggedEvaluation]:
        """Yield for the trace log until when the conversation waits for each rule."""
        last = max(conversation.runs.values(), key=lambda each: (each.start_time, each.root_span_id))
        for rule in self._rules:
            entry = LoggedEvaluation(rule.name, run.root_span_id, "awaiting_idle")
            entry = conversation.logged.setdefault(rule.name, entry)
            entry.conversation_id, entry.span_id = run.conversation_id, last.root_span_id
            entry.status, entry.until = "awaiting_idle", time.time() + rule.idle
            yield entry

    # --- out ---

    def due(self, now: float, most: int) -> list[DueConversation]:
        """Return idle conversations, as many as result in at most `most` evaluations."""
        self._forget_old(now)
        # One at least: otherwise a capacity below the number of rules would stop them all.
        limit = max(1, most // len(self._rules)) if most and self._rules else 0
        found: list[DueConversation] = []
        for group, waiting in self._waiting.items():
            while waiting and len(found) < limit:
                key, conversation = next(iter(waiting.items()))
                # Those behind it were active later.
                if conversation.last + self._idle[group] > now:
                    break
                found += self._due(key, group)
        return found

    def end(self) -> list[DueConversation]:
        """Return all conversations that wait, and forget everything."""
        ended = self.due(inf, self.waiting * len(self._rules))
        self.forget()
        return ended

    def forget(self) -> None:
        """Forget all conversations, without a loss."""
        # A list, since dropping changes the dict.
        for key in list(self._all):
            for group in self._groups(key):
                self._stop_waiting(key, group)
            self._drop(key)

    def _due(self, key: _Key, group: str, lost: str | None = None) -> list[DueConversation]:
        """Return a conversation for a group of rules; nothing if its runs cannot be joined."""
        conversation = self._stop_waiting(key, group)
        conversation.revisions[group] = conversation.revisions.get(group, 0) + 1
        runs: Collection[Run] = conversation.runs.values()
        try:
            return [DueConversation(as_conversation(runs), conversation, group, lost)]
        except BaseException as error:
            self._fail(next(iter(runs)), [rule for rule in self._rules if rule.group == group], error)
            return []

    def _stop_waiting(self, key: _Key, group: str) -> Conversation:
        """Take a conversation from those that wait for a group of rules."""
        conversation = self._waiting[group].pop(key)
        # The source keeps the runs until the last group of rules has judged them.
        if not self._groups(key):
            unjudged, conversation.unjudged = conversation.unjudged, []
            for run in unjudged:
                self._waits(run, False)
        return conversation

    def _groups(self, key: _Key) -> tuple[str, ...]:
        """Return the groups of rules that a conversation waits for."""
        return tuple(group for group, waiting in self._waiting.items() if key in waiting)

    def _forget_old(self, now: float) -> None:
        while self._all:
            key, conversation = next(iter(self._all.items()))
            # One that waits is not forgotten, and those behind it were active later.
            if conversation.last + self._keep > now or self._groups(key):
                return
            self._drop(key)

    def _evict(self) -> list[DueConversation]:
        """Evict the least recently active conversations beyond the bounds; returns the lost evaluations."""
        lost: list[DueConversation] = []
        while len(self._all) > self._most or self._bytes > self._most_bytes:
            few = self._bytes > self._most_bytes
            reason = "too_many_conversation_bytes" if few else "too_many_conversations"
            key = next(iter(self._all))
            for group in self._groups(key):
                lost += self._due(key, group, reason)
            self._drop(key)
        return lost

    def _drop(self, key: _Key) -> None:
        """Delete a conversation, but remember its revisions."""
        conversation = self._all.pop(key)
        self._bytes -= conversation.size
        # Should it continue, its next evaluation needs a higher revision than the last.
        self._revisions[key] = conversation.revisions

    def _fail(self, run: Run, rules: Iterable[Rule], error: BaseException) -> None:
        """Record a run or conversation with unexpected content as unreadable; others are unaffected."""
        log_error(_logger, "a conversation could not be judged", error=error)
        self._ledger.decided(run, [Decision(rule, "not_sampled", "unreadable") for rule in rules])


def _ids_of(run: Run) -> Run:
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
