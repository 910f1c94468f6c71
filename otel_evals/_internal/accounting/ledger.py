"""The ledger: the one place where the pipeline reports what happens to runs.

It updates the counters and the trace log together. Written on the engine's thread, read from any.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from otel_evals._internal.accounting.content_log import ContentLog
from otel_evals._internal.accounting.counters import RuleStats, Stats
from otel_evals._internal.accounting.failures import FailureLog
from otel_evals._internal.accounting.picks import PickLog
from otel_evals._internal.accounting.trace_log import LoggedEvaluation, TraceLog
from otel_evals._internal.model import Evaluation, Loss, Run, ScoredRun
from otel_evals._internal.sampling.algebra import Chance
from otel_evals._internal.sampling.decide import Decision


class Ledger:
    """Updates counters and trace log together.

    Args:
        rules: the rules' names.
        max_traces: how many traces the trace log keeps.
        content: whether messages of errors may be logged: they may quote what was judged.
        ceiling: the highest sampling probability of any rule, for the sampler check.
    """

    def __init__(
        self, rules: Iterable[str], max_traces: int = 10_000, *, content: bool = True, ceiling: float = 1.0
    ) -> None:
        self.counters = Counters(rules)
        self.trace_log = TraceLog(max_traces)
        self.failures = FailureLog(content=content)
        self.content = ContentLog()
        self.picks = PickLog(ceiling)

    @property
    def pending(self) -> int:
        """Evaluations without an outcome. May be read from any thread."""
        return self.counters.pending

    def stats(self, refused: int = 0) -> Stats:
        """All counters at one moment; see `Counters.snapshot`."""
        return self.counters.snapshot(refused)

    def lost(self, loss: Loss) -> None:
        """Runs, spans or log records were lost before the rules were evaluated."""
        if loss.what == "run":
            self.counters.ignore(loss.reason, loss.count)
        else:
            self.counters.lose(loss.reason, loss.count)
        if loss.trace_id:
            self.trace_log.ignored(loss.trace_id, loss.reason, loss.count)

    def lost_late(self, trace_id: str, count: int = 1) -> None:
        """Late spans were lost: their run is not kept."""
        self.lost(Loss("span", "span_late", trace_id, count))

    def assembled(self, trace_id: str, spans: int, runs: Sequence[Run]) -> None:
        """Spans of a trace were assembled into runs."""
        self.trace_log.assembled(trace_id, spans, runs)

    def accepted(self, run: Run, decisions: Iterable[tuple[Run, Iterable[Decision]]] = ()) -> None:
        """Rules were evaluated for a run, with these decisions about it or the agents in it."""
        self.counters.accept()
        for judged, decided in decisions:
            self.decided(judged, decided)
        try:  # noqa: SIM105  # `suppress` is three calls more
            self.content.note(run)
        except BaseException:  # a log handler of the application
            pass

    def decided(self, run: Run, decisions: Iterable[Decision]) -> None:
        """Rules have decided whether they sample a run."""
        for decision in decisions:
            rule = decision.rule.name
            if decision.chance is not None and decision.chance.probability < 1.0:
                self.picks.note(run, decision)
            if decision.status == "sampled":
                self.counters.sample(rule)
                self.trace_log.decided(run, rule, "queued", None, decision.chance)
            elif decision.status == "not_sampled":
                self.counters.skip(rule, decision.reason)
                self.trace_log.decided(run, rule, "not_sampled", decision.reason, decision.chance)
            else:
                self.trace_log.decided(run, rule, "waiting")

    def awaits_idle(self, run: Run, evaluations: Iterable[LoggedEvaluation]) -> None:
        """A run's conversation will be judged when it is idle."""
        for evaluation in evaluations:
            self.trace_log.awaits_idle(run, evaluation)

    def resumed(self, run: Run, rule: str, chance: Chance) -> None:
        """An evaluation was taken from the store."""
        self.counters.resume(rule)
        self.trace_log.decided(run, rule, "queued", None, chance)

    def ended(self, rule: str, evaluation: Evaluation, error: BaseException | None = None) -> None:
        """An evaluation has its outcome; `error` is what its scorer raised."""
        status = evaluation.outcome.status
        reason = None if status == "scored" else evaluation.reason
        self.counters.settle(rule, status, reason)
        try:  # noqa: SIM105
            self.failures.note(rule, evaluation.outcome, error)
        except BaseException:  # a log handler of the application
            pass
        self.trace_log.ended(rule, evaluation, status, reason)

    def stored(self, run: Run, rule: str, reason: str) -> None:
        """An evaluation without an outcome was put back into the store."""
        self.counters.store(rule)
        self.trace_log.stored(run, rule, reason)

    def delivered(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        """Scored runs were delivered, or not: `end` is `exported` or the reason."""
        self.trace_log.delivered(destination, batch, end)


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
