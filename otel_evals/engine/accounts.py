"""The books: what became of every run, for every rule, at every moment.

The law of conservation, which `Stats.check` verifies:

    runs seen             = eligible + ignored (by reason)
    eligible, for a rule  = sampled + not sampled (by reason)
    sampled, for a rule   = scored + not scored (by reason) + failed (by type) + dropped (by reason) + pending

With a store, runs also go back into the spool and come from it, on both sides of the last line:

    sampled + resumed     = scored + not scored + failed + dropped + spooled + pending
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from otel_evals.model import Evaluation

__all__ = ["Accounts", "RuleStats", "Stats"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleStats:
    """What became of the eligible runs for one rule.

    For rules of scope `agent`, of the agents in them. For rules of scope `conversation`, of conversations,
    each time they fell idle, and of runs that belong to none.
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
    """By reason: `queue_full`, `shutdown`."""
    spooled: int = 0
    """Left in the store for later, to be resumed by this process or another."""
    resumed: int = 0
    """Taken up from the store, or scored once more because of a late span."""
    pending: int = 0
    """Waiting for the scorer or being scored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """A consistent snapshot of the books."""

    seen: int = 0
    """Runs that were assembled or given up."""
    eligible: int = 0
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Runs that no rule was asked about, by reason."""
    rules: Mapping[str, RuleStats] = field(default_factory=dict)
    """By scorer id."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Spans and log records that did not reach a run, by reason."""
    store: Mapping[str, int] = field(default_factory=dict)
    """What the store did: runs `written`, `taken_over`, and lost, as `not_written.*` and `evicted.*`."""
    conversations: Mapping[str, int] = field(default_factory=dict)
    """Conversations `waiting` to fall idle at this moment, and lost while they did, as `lost.*`."""

    def check(self) -> list[str]:
        """Violations of the law of conservation, in words; empty when the books balance."""
        wrong = []
        if self.seen != self.eligible + sum(self.ignored.values()):
            wrong.append(f"{self.seen} runs seen, {self.eligible} eligible, {dict(self.ignored)} ignored")
        for name, rule in self.rules.items():
            if rule.eligible != rule.sampled + sum(rule.not_sampled.values()):
                wrong.append(f"{name}: {rule.eligible} eligible, {rule.sampled} sampled, {rule.not_sampled}")
            ends = sum(sum(by.values()) for by in (rule.not_scored, rule.failed, rule.dropped))
            if rule.sampled + rule.resumed != rule.scored + ends + rule.spooled + rule.pending:
                wrong.append(f"{name}: {rule}")
        return wrong


@dataclass(slots=True)
class _Rule:
    eligible: int = 0
    sampled: int = 0
    scored: int = 0
    spooled: int = 0
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
            spooled=self.spooled,
            resumed=self.resumed,
            pending=self.pending,
            not_sampled=dict(self.not_sampled),
            not_scored=dict(self.not_scored),
            failed=dict(self.failed),
            dropped=dict(self.dropped),
        )


class Accounts:
    """Counts; written on the engine's thread, read from anywhere."""

    def __init__(self, names: Iterable[str]) -> None:
        self._lock = threading.Lock()
        self._seen = self._eligible = 0
        self.moved = time.monotonic()
        """When an evaluation last ended, or the first of those pending began to wait."""
        self.last_end: float | None = None
        """When an evaluation last ended; both in `time.monotonic` seconds."""
        self._ignored: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        self._rules = {name: _Rule() for name in names}

    def ignore(self, reason: str, count: int = 1) -> None:
        """Runs that are not going to be judged; reasons of spans and log records count as losses."""
        with self._lock:
            if reason.startswith(("span_", "log_", "intake_")):
                self._losses[reason] += count
            else:
                self._seen += count
                self._ignored[reason] += count

    def accept(self) -> None:
        """A run that the rules are asked about."""
        with self._lock:
            self._seen += 1
            self._eligible += 1

    def skip(self, name: str, reason: str) -> None:
        """A run that a rule does not sample."""
        with self._lock:
            rule = self._rules[name]
            rule.eligible += 1
            rule.not_sampled[reason] += 1

    def sample(self, name: str) -> None:
        """A run that a rule samples; pending from now on."""
        with self._lock:
            if not self.pending:
                self.moved = time.monotonic()
            rule = self._rules[name]
            rule.eligible += 1
            rule.sampled += 1
            rule.pending += 1

    def settle(self, name: str, evaluation: Evaluation) -> None:
        """A sampled run's end."""
        with self._lock:
            self.moved = self.last_end = time.monotonic()
            rule = self._rules[name]
            rule.pending -= 1
            if evaluation.status == "scored":
                rule.scored += 1
            else:
                by: Counter[str] = getattr(rule, evaluation.status)
                by[evaluation.reason or "unknown"] += 1

    def spool(self, name: str) -> None:
        """A pending run that goes back into the store."""
        with self._lock:
            self._rules[name].pending -= 1
            self._rules[name].spooled += 1

    def resume(self, name: str) -> None:
        """A run from the store; pending from now on."""
        with self._lock:
            self._rules[name].pending += 1
            self._rules[name].resumed += 1

    @property
    def pending(self) -> int:
        """Evaluations on their way, over all rules."""
        return sum(rule.pending for rule in self._rules.values())

    def snapshot(self, refused: int = 0) -> Stats:
        """All books at one moment.

        Args:
            refused: spans and log records that the engine's intake had no room for.
        """
        with self._lock:
            return Stats(
                seen=self._seen,
                eligible=self._eligible,
                ignored=dict(self._ignored),
                losses={**self._losses, "intake_full": refused} if refused else dict(self._losses),
                rules={name: rule.snapshot() for name, rule in self._rules.items()},
            )
