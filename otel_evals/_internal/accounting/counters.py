"""Counters: what happened to every run, for every rule.

They balance at every moment, which `Stats.check` verifies:

    runs seen             = eligible + ignored (by reason)
    eligible, for a rule  = sampled + not sampled (by reason)
    sampled, for a rule   = scored + not scored (by reason) + failed (by type) + dropped (by reason) + pending

With a store, evaluations are also put back into it (`stored`) and taken from it (`resumed`):

    sampled + resumed     = scored + not scored + failed + dropped + stored + pending
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStats:
    """The counters of one rule.

    The unit depends on the rule's scope: runs for `run`, agent operations for `agent`. For `conversation` it
    is a conversation, counted each time it became idle, and a run without a conversation id.
    """

    eligible: int = 0
    sampled: int = 0
    not_sampled: Mapping[str, int] = field(default_factory=dict)
    """By reason: `sampled_out`, `not_applicable` (the rule's `when`), `predicate_failed`, `cascade_...`."""
    scored: int = 0
    not_scored: Mapping[str, int] = field(default_factory=dict)
    """By the scorer's reason."""
    failed: Mapping[str, int] = field(default_factory=dict)
    """By error type."""
    dropped: Mapping[str, int] = field(default_factory=dict)
    """By reason, such as `queue_full` or `shutdown`."""
    stored: int = 0
    """Put back into the store without an outcome, for this process or another to resume."""
    resumed: int = 0
    """Taken from the store, or scored again because of a late span."""
    pending: int = 0
    """Queued or being scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Runs that went into the store and came from it."""

    written: int = 0
    taken_over: int = 0
    """From processes that had ended."""
    lease_lost: int = 0
    """Taken over by another process while this one still scored them."""
    not_written: Mapping[str, int] = field(default_factory=dict)
    """Scored, but not kept over a crash; by reason."""
    evicted: Mapping[str, int] = field(default_factory=dict)
    """Lost with what they were kept for; by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationStats:
    """Conversations that wait until they are idle."""

    waiting: int = 0
    """At this moment."""
    lost: Mapping[str, int] = field(default_factory=dict)
    """While they waited; by reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A consistent snapshot of the counters."""

    seen: int = 0
    """Runs that were assembled or ignored."""
    eligible: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Runs for which no rule was evaluated, by reason."""
    rules: Mapping[str, RuleStats] = field(default_factory=dict)
    """By scorer id."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Spans and log records that did not reach a run, by reason."""
    store: StoreStats = StoreStats()
    """What the store did."""
    conversations: ConversationStats = ConversationStats()
    """Conversations that wait, for rules of scope `conversation`."""
    remote: Mapping[str, int] = field(default_factory=dict)
    """Requests from other services. `marked`: not scored, as this deployment's evaluations sent them.
    `mark_not_signed`: scored, although they say that. `threshold_not_trusted`: their sampling threshold was
    left out of account."""

    def check(self) -> list[str]:
        """The sums that do not balance, in words; empty when all do."""
        wrong = []
        if self.seen != self.eligible + sum(self.ignored.values()):
            wrong.append(f"{self.seen} runs seen, {self.eligible} eligible, {dict(self.ignored)} ignored")
        for name, rule in self.rules.items():
            if rule.eligible != rule.sampled + sum(rule.not_sampled.values()):
                wrong.append(f"{name}: {rule.eligible} eligible, {rule.sampled} sampled, {rule.not_sampled}")
            ends = sum(sum(by.values()) for by in (rule.not_scored, rule.failed, rule.dropped))
            if rule.sampled + rule.resumed != rule.scored + ends + rule.stored + rule.pending:
                wrong.append(f"{name}: {rule}")
        return wrong


@dataclass(slots=True)
class _Rule:
    eligible: int = 0
    sampled: int = 0
    scored: int = 0
    stored: int = 0
    resumed: int = 0
    pending: int = 0
    not_sampled: Counter[str] = field(default_factory=Counter)
    not_scored: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)

    def snapshot(self) -> RuleStats:
        return RuleStats(
            eligible=self.eligible,
            sampled=self.sampled,
            scored=self.scored,
            stored=self.stored,
            resumed=self.resumed,
            pending=self.pending,
            not_sampled=dict(self.not_sampled),
            not_scored=dict(self.not_scored),
            failed=dict(self.failed),
            dropped=dict(self.dropped),
        )


class Counters:
    """The counters. Written on the engine's thread, read from any thread.

    Args:
        names: the rules' names.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._seen = self._eligible = 0
        self.moved = time.monotonic()
        """When an evaluation last ended or the first pending one was queued, in `time.monotonic` seconds."""
        self.last_end: float | None = None
        """When an evaluation last ended, in `time.monotonic` seconds."""
        self._ignored: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        self._rules = {name: _Rule() for name in names}
        self.pending = 0
        """Evaluations without an outcome, over all rules."""

    def add_rules(self, names: Iterable[str]) -> None:
        """Count for these rules too."""
        with self._lock:
            for name in names:
                self._rules.setdefault(name, _Rule())

    def ignore(self, reason: str, count: int = 1) -> None:
        """Count runs for which no rule is evaluated."""
        with self._lock:
            self._seen += count
            self._ignored[reason] += count

    def lose(self, reason: str, count: int = 1) -> None:
        """Count spans or log records that did not reach a run."""
        with self._lock:
            self._losses[reason] += count

    def accept(self) -> None:
        """Count a run for which the rules are evaluated."""
        with self._lock:
            self._seen += 1
            self._eligible += 1

    def skip(self, name: str, reason: str) -> None:
        """Count a run that a rule does not sample."""
        with self._lock:
            rule = self._rules[name]
            rule.eligible += 1
            rule.not_sampled[reason] += 1

    def sample(self, name: str) -> None:
        """Count a run that a rule samples as pending."""
        with self._lock:
            if not self.pending:
                self.moved = time.monotonic()
            rule = self._rules[name]
            rule.eligible += 1
            rule.sampled += 1
            rule.pending += 1
            self.pending += 1

    def settle(self, name: str, status: str, reason: str | None) -> None:
        """Count the outcome of a pending evaluation: its status and reason."""
        with self._lock:
            self.moved = self.last_end = time.monotonic()
            rule = self._rules[name]
            rule.pending -= 1
            self.pending -= 1
            if status == "scored":
                rule.scored += 1
            else:
                by: Counter[str] = getattr(rule, status)
                by[reason or "unknown"] += 1

    def store(self, name: str) -> None:
        """Count a pending evaluation as put back into the store."""
        with self._lock:
            self.pending -= 1
            self._rules[name].pending -= 1
            self._rules[name].stored += 1

    def resume(self, name: str) -> None:
        """Count an evaluation taken from the store as pending."""
        with self._lock:
            if not self.pending:
                self.moved = time.monotonic()
            self.pending += 1
            self._rules[name].pending += 1
            self._rules[name].resumed += 1

    def snapshot(self, refused: int = 0) -> Stats:
        """All counters at one moment.

        Args:
            refused: spans and log records that the engine's full intake refused.
        """
        with self._lock:
            return Stats(
                seen=self._seen,
                eligible=self._eligible,
                ignored=dict(self._ignored),
                losses={**self._losses, "intake_full": refused} if refused else dict(self._losses),
                rules={name: rule.snapshot() for name, rule in self._rules.items()},
            )
