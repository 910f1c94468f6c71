"""Gathers runs until their conversation is idle, then hands it on as one run.

Used on the engine's thread only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from otel_evals._internal.accounting.ledger import Ledger, LoggedEvaluation
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.conversations import Conversation, Conversations, DueConversation
from otel_evals._internal.evaluate.queue_interface import (
    ConversationState,
    DurableQueue,
    KeptRun,
    PassedRun,
)
from otel_evals._internal.model import Run
from otel_evals._internal.read.conversation import as_conversation, conversation_key
from otel_evals._internal.sampling.consistent import conversation_number, is_sampled
from otel_evals._internal.sampling.decide import Decision
from otel_evals._internal.util.error_log import log_error

_logger = logging.getLogger(__name__)
_PAUSE = 0.02
"""Seconds between two checks of due conversations while their evaluations have no room."""


@dataclass(frozen=True, slots=True)
class JoinedConversation:
    """A conversation to evaluate rules for, joined into one run."""

    run: Run
    due: DueConversation


@dataclass(slots=True, eq=False)
class _Known:
    """Records of a conversation in the trace log and the store."""

    logged: dict[str, LoggedEvaluation] = field(default_factory=dict)
    """By the rule's name."""
    stored: dict[tuple[str, str], KeptRun] = field(default_factory=dict)
    """By trace id and root span id of each run."""


class ConversationGatherer:
    """Gathers the runs of conversations, and returns the conversations that are due."""

    def __init__(self, config: Config, ledger: Ledger, store: DurableQueue) -> None:
        self.use_rules(config.rules)
        self._ledger = ledger
        self._store = store
        self._conversations = Conversations(
            {rule.asked_with: rule.idle for rule in self._rules},
            keep=config.conversation_keep,
            most=config.max_conversations,
            most_bytes=config.max_conversation_bytes,
        )
        self._known: dict[Conversation, _Known] = {}
        self.active = bool(self._rules)
        """True if any rule judges conversations."""

    def use_rules(self, rules: Sequence[Rule]) -> None:
        """Switch to other rules, which must have the same names and idle times."""
        self._rules = [rule for rule in rules if rule.scope == "conversation"]
        self._ceiling = max((rule.sampling.ceiling for rule in self._rules), default=0.0)

    @property
    def waiting(self) -> int:
        """Number of conversations that are not idle yet. May be read from any thread."""
        return self._conversations.waiting if self.active else 0

    def next_due(self, now: float) -> float:
        """Return the time of the next call of `due`; infinity if no conversation waits."""
        due = self._conversations.next_due
        return due if due == inf else max(due, now + _PAUSE)

    def take(self, runs: Sequence[Run], now: float) -> list[JoinedConversation]:
        """Take closed runs; returns the conversations that were evicted for them.

        Runs of traces that the application did not sample are skipped.
        """
        lost: list[DueConversation] = []
        for run in runs:
            if run.trace_flags & 1:
                try:
                    lost += self._take(run, now)
                except BaseException as error:
                    self._fail(run, self._rules, error)
        return self._joined(lost)

    def due(self, now: float, most: int) -> list[JoinedConversation]:
        """Return idle conversations, as many as result in at most `most` evaluations."""
        if not self.active:
            return []
        limit = max(1, most // len(self._rules)) if most else 0
        return self._joined(self._conversations.due(now, limit))

    def end(self) -> list[JoinedConversation]:
        if not self.active:
            return []
        return self._joined(self._conversations.due(inf, self.waiting * len(self._rules)))

    def clear(self) -> None:
        self._conversations.clear()
        self._forget()

    def asked(self, joined: JoinedConversation) -> None:
        """Record that rules were evaluated for a conversation, for other processes.

        Called after the jobs are stored: a crash in between repeats the evaluation instead of losing it.
        """
        known = self._known.get(joined.due.conversation)
        if known is not None and known.stored:
            waits = self._conversations.waits(conversation_key(joined.run))
            waiting = [rule for rule in self._rules if rule.asked_with in waits]
            newest = next(reversed(known.stored.values()))
            self._store.note_conversation(newest, self._state(joined.due.conversation, waiting))

    def take_back(self, run: Run, state: ConversationState, now: float) -> list[JoinedConversation]:
        """Take a run of a conversation that waited in a process that has ended."""
        if not self.active:
            return []
        asked: dict[str, int] = {}
        for rule in self._rules:
            asked[rule.asked_with] = max(asked.get(rule.asked_with, 0), state.asked.get(rule.name, 0))
        waits = {rule.asked_with for rule in self._rules if rule.name in state.waits}
        return self._joined(self._keep(run, self._conversations.restore(run, now, asked, waits)))

    def receive(self, run: Run, passed: PassedRun, now: float) -> list[JoinedConversation]:
        """Take a run that another process passed on; returns the conversations that were evicted for it."""
        if not self.active:
            return []
        conversation = self._conversations.receive(
            run,
            now,
            ruled_out=passed.ids is not None or self._rules_out(run),
            judged=passed.judged,
            read_before=passed.read_before,
        )
        if conversation is None:
            return []
        conversation.source, conversation.digest = passed.source, passed.conversation
        return self._joined(self._keep(run, conversation))

    @property
    def open_digests(self) -> set[str]:
        """Digests of the waiting conversations whose runs other processes passed on."""
        return self._conversations.open_digests

    def forget(self, sources: Collection[Hashable]) -> None:
        """Forget the conversations of these sources without a loss."""
        self._conversations.forget(sources)
        self._forget()

    def _rules_out(self, run: Run) -> bool:
        return not is_sampled(self._ceiling, conversation_number(run.conversation_id or ""))

    def _take(self, run: Run, now: float) -> list[DueConversation]:
        if not run.conversation_id:
            decisions = [Decision(rule, "not_sampled", "no_conversation_id") for rule in self._rules]
            self._ledger.decided(run, decisions)
            return []
        ruled_out = self._rules_out(run)
        if self._store.pass_on(run, ruled_out=ruled_out):
            return []
        return self._keep(run, self._conversations.add(run, now, ruled_out=ruled_out))

    def _keep(self, run: Run, conversation: Conversation) -> list[DueConversation]:
        """Log that the run waits, write it to the store, and make room for it."""
        known = self._known.setdefault(conversation, _Known())
        waits = self._conversations.waits(conversation_key(run))
        waiting = [rule for rule in self._rules if rule.asked_with in waits]
        self._ledger.trace_log.awaits_idle(run, _log(run, conversation, known, waiting))
        if self._store.keeps and not conversation.ruled_out:
            place = run.trace_id, run.root_span_id
            if place in known.stored:
                self._store.forget_conversation([known.stored.pop(place)])
            known.stored[place] = self._store.keep_for_conversation(run, self._state(conversation, waiting))
        lost = self._conversations.make_room()
        self._forget()
        return lost

    def _state(self, conversation: Conversation, waiting: Iterable[Rule]) -> ConversationState:
        asked = {rule.name: conversation.revisions.get(rule.asked_with, 0) for rule in self._rules}
        return ConversationState(asked, tuple(rule.name for rule in waiting))

    def _joined(self, due: Iterable[DueConversation]) -> list[JoinedConversation]:
        joined = []
        for each in due:
            runs = each.conversation.runs.values()
            try:
                joined.append(JoinedConversation(as_conversation(runs), each))
            except BaseException as error:
                rules = [rule for rule in self._rules if rule.asked_with == each.asked_with]
                self._fail(next(iter(runs)), rules, error)
        return joined

    def _fail(self, run: Run, rules: Iterable[Rule], error: BaseException) -> None:
        """Record a run or conversation with unexpected content as unreadable; others are unaffected."""
        log_error(_logger, "a conversation could not be judged", error=error)
        self._ledger.decided(run, [Decision(rule, "not_sampled", "unreadable") for rule in rules])

    def _forget(self) -> None:
        for conversation in self._conversations.forgotten():
            known = self._known.pop(conversation, None)
            if known is not None and known.stored:
                self._store.forget_conversation(known.stored.values())


def _log(
    run: Run, conversation: Conversation, known: _Known, rules: Iterable[Rule]
) -> Iterator[LoggedEvaluation]:
    """Yield for the trace log until when the conversation waits for each rule."""
    last = max(conversation.runs.values(), key=lambda each: (each.start_time, each.root_span_id))
    for rule in rules:
        logged = known.logged.setdefault(
            rule.name, LoggedEvaluation(rule.name, run.root_span_id, "awaiting_idle")
        )
        logged.conversation_id, logged.span_id = run.conversation_id, last.root_span_id
        logged.status, logged.until = "awaiting_idle", time.time() + rule.idle
        yield logged
