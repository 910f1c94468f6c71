"""The ledger: the one place where the pipeline reports what happens to runs.

It counts runs for `stats()`, and logs the most recent traces for `explain`. Written on the engine's thread,
at a few microseconds per run; read from any thread, without a lock: a signal handler may interrupt anything.
It holds no content of runs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from operator import attrgetter

from otel_evals._internal.accounting.counters import (
    LoggedEvaluation,
    LoggedTrace,
    RuleCounts,
    Stats,
    counted_as,
)
from otel_evals._internal.accounting.picks import PickLog
from otel_evals._internal.accounting.problem_log import ContentLog, FailureLog, predicate_failed
from otel_evals._internal.model import (
    Evaluation,
    Loss,
    NotScored,
    Outcome,
    Run,
    Score,
    ScoredRun,
)
from otel_evals._internal.sampling.algebra import Chance
from otel_evals._internal.sampling.decide import Decision

# Measured with two short rules; ids and shared texts included.
_TRACE_BYTES, _EVALUATION_BYTES = 400, 250
MAX_TRACES = 10_000
_MAX_EVALUATIONS = 500
_shared = lru_cache(maxsize=_MAX_EVALUATIONS)(tuple)  # one for all traces with equal values
_FORGOTTEN_AT_ONCE = 16
_CONVENTION = attrgetter("convention")
_CHECKED_ONE_IN = 128
"""Runs of an instrumentation per check for missing content, which reads all of it. The first is checked."""
_MOST_READS = 1_000
_REPEATED = "span_repeated"
_MAX_INSTRUMENTATIONS = 100  # scopes can be made up


class Ledger:
    """Counts what happens to runs, and logs it by trace.

    Error messages, which may quote the run, are logged with `content` only. `ceiling` is the highest
    sampling probability of any rule.
    """

    def __init__(self, rules: Iterable[str], *, content: bool = True, ceiling: float = 1.0) -> None:
        self.trace_log = TraceLog()
        self.failures = FailureLog(content=content)
        self.content = ContentLog()
        self.picks = PickLog(ceiling)
        self.pending = 0
        """Evaluations without an outcome, over all rules."""
        self.moved = time.monotonic()
        """`time.monotonic` of the last end of an evaluation, or when the first pending one was queued."""
        self.last_end: float | None = None
        self._changes = 0
        """Odd while counters that belong together change."""
        self._seen = self._eligible = 0
        self._ignored: Counter[str] = Counter()
        self._losses: Counter[str] = Counter()
        self._repeated = 0
        self.not_kept = 0
        """Sampled runs that their source could not keep."""
        self._rules = {name: RuleCounts() for name in rules}
        self._instrumentations: dict[str, int] = {}

    def add_rules(self, names: Iterable[str]) -> None:
        self._rules = {**{name: RuleCounts() for name in names}, **self._rules}

    def stats(self, refused: Mapping[str, int] | None = None) -> Stats:
        """Return all counters; `refused` counts what the engine's intake refused, by reason."""
        for _ in range(_MOST_READS):
            before = self._changes
            stats = Stats(
                seen=self._seen,
                eligible=self._eligible,
                ignored=dict(self._ignored),
                losses={**self._losses, **(refused or {})},
                repeated=self._repeated,
                not_kept=self.not_kept,
                rules={name: rule.snapshot() for name, rule in self._rules.items()},
            )
            if before == self._changes and before % 2 == 0:
                break
            time.sleep(0)  # the engine's thread finishes its change
        return stats  # after many reads: this frame may have interrupted a change

    def lost(self, loss: Loss) -> None:
        """Count runs, spans or log records that were lost before the rules were evaluated."""
        self._changes += 1
        if loss.what == "run":
            self._seen += loss.count
            self._ignored[loss.reason] += loss.count
        elif loss.reason == _REPEATED:
            self._repeated += loss.count
        else:
            self._losses[loss.reason] += loss.count
        self._changes += 1
        if loss.trace_id:
            self.trace_log.ignored(loss.trace_id, loss.reason, loss.count)

    def accepted(self, run: Run, decisions: Iterable[tuple[Run, Iterable[Decision]]] = ()) -> None:
        """Count a run for which rules were evaluated, with their decisions about it or the agents in it."""
        self._changes += 1
        self._seen += 1
        self._eligible += 1
        self._changes += 1
        for judged, decided in decisions:
            self.decided(judged, decided)
        who = run.scope_name or run.convention
        count = self._instrumentations.get(who, 0)
        if count or len(self._instrumentations) < _MAX_INSTRUMENTATIONS:
            self._instrumentations[who] = count + 1
        if count % _CHECKED_ONE_IN == 0:
            try:  # noqa: SIM105  # `suppress` is three calls more
                self.content.note(who, run)
            except BaseException:  # a log handler of the application
                pass

    def decided(self, run: Run, decisions: Iterable[Decision]) -> None:
        for each in decisions:
            name, status, reason, chance = each.rule.name, each.status, each.reason, each.chance
            if chance is not None and (chance.probability < 1.0 or each.rule.sampling.constant is None):
                self.picks.note(run, each)
            if status == "sampled":
                rule = self._rules[name]
                self._changes += 1
                rule.eligible += 1
                rule.sampled += 1
                self._count_pending(rule)
                self.trace_log.decided(run, name, "queued", None, chance)
            elif status == "not_sampled":
                rule = self._rules[name]
                by = rule.not_sampled
                self._changes += 1
                rule.eligible += 1
                by[counted_as(reason, by)] += 1
                self._changes += 1
                if "predicate_failed" in rule.not_sampled:
                    outcome = NotScored(reason=reason) if each.error is None else predicate_failed(each.error)
                    self._note_failure(name, rule, outcome, each.error)
                self.trace_log.decided(run, name, "not_sampled", reason, chance)
            else:
                self.trace_log.decided(run, name, "waiting")

    def resumed(self, run: Run, rule: str, chance: Chance) -> None:
        """Count a further check of a run."""
        counts = self._rules[rule]
        self._changes += 1
        counts.resumed += 1
        self._count_pending(counts)
        self.trace_log.decided(run, rule, "queued", None, chance)

    def refused(self, name: str, reason: str) -> None:
        """Count a check of an answer that found no run to evaluate."""
        self.add_rules([name])  # a scorer may be in no rule
        rule = self._rules[name]
        self._changes += 1
        rule.eligible += 1
        rule.sampled += 1
        rule.dropped[reason] += 1
        self._changes += 1

    def _count_pending(self, rule: RuleCounts) -> None:
        """Count an evaluation that begins, and end the change of its rule's counters."""
        if not self.pending:
            self.moved = time.monotonic()
        rule.pending += 1
        self.pending += 1
        self._changes += 1

    def ended(self, name: str, evaluation: Evaluation, error: BaseException | None = None) -> None:
        """Record the outcome of a pending evaluation, and its scorer's exception."""
        status = evaluation.outcome.status
        reason = None if status == "scored" else evaluation.reason
        rule = self._rules[name]
        self._changes += 1
        self.moved = self.last_end = time.monotonic()
        rule.pending -= 1
        self.pending -= 1
        if status == "scored":
            rule.scored += 1
        else:
            by: Counter[str] = getattr(rule, status)
            by[counted_as(reason or "unknown", by)] += 1
        self._changes += 1
        if rule.failed or "predicate_failed" in rule.not_sampled:
            self._note_failure(name, rule, evaluation.outcome, error)
        self.trace_log.ended(name, evaluation, status, reason)

    def _note_failure(
        self, name: str, rule: RuleCounts, outcome: Outcome, error: BaseException | None
    ) -> None:
        try:  # noqa: SIM105
            self.failures.note(name, outcome, error, rule.scored + rule.not_scored.total())
        except BaseException:  # a log handler of the application
            pass


class TraceLog:
    """The most recent traces, by trace id: at most `limit`, in about `max_bytes`; the oldest go first."""

    def __init__(self, limit: int = MAX_TRACES, max_bytes: int = 24 * 1024 * 1024) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._traces: dict[str, LoggedTrace] = {}  # the collector would walk an OrderedDict
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._traces)

    def get(self, trace_id: str) -> LoggedTrace | None:
        return self._traces.get(trace_id)

    def assembled(self, trace_id: str, spans: int, runs: Iterable[Run]) -> None:
        trace = self._trace(trace_id)
        trace.spans += spans
        for run in runs:
            trace.runs += 1
            self._bytes += len(run.trace_state) - len(trace.trace_state)
            trace.trace_state = run.trace_state
            names = {*trace.conventions, *map(_CONVENTION, run.operations)}
            trace.conventions = _shared(tuple(sorted(names)))

    def ignored(self, trace_id: str, reason: str, count: int) -> None:
        trace = self._trace(trace_id)
        trace.ignored = trace.ignored or Counter()
        trace.ignored[reason] += count

    def decided(
        self, run: Run, rule: str, status: str, reason: str | None = None, chance: Chance | None = None
    ) -> None:
        trace = self._trace(run.trace_id)
        known = _logged(trace, rule, run.root_span_id)
        if known is not None:
            known.status, known.reason, known.chance = status, reason, chance
        else:
            self._add(trace, LoggedEvaluation(rule, run.root_span_id, status, reason, chance))

    def awaits_idle(self, run: Run, evaluations: Iterable[LoggedEvaluation]) -> None:
        for evaluation in evaluations:
            trace = self._trace(run.trace_id)
            if evaluation not in trace.evaluations:
                self._add(trace, evaluation)

    def ended(self, rule: str, evaluation: Evaluation, status: str, reason: str | None) -> None:
        trace = self._traces.get(evaluation.trace_id)
        known = None if trace is None else _logged(trace, rule, evaluation.span_id)
        if known is not None:
            outcome = evaluation.outcome
            known.value = getattr(outcome, "value", None)
            known.status, known.reason = status, reason
            known.attempts, known.duration = evaluation.attempts, evaluation.duration
            known.effect = evaluation.effect
            known.evidence_cut = isinstance(outcome, Score) and bool(outcome.steps) and outcome.evidence_cut

    def delivered(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        """Log how a delivery ended: `exported`, or the reason why not."""
        for scored in batch:
            trace = self._traces.get(scored.run.trace_id)
            if trace is not None and len(trace.deliveries) < _MAX_EVALUATIONS:
                trace.deliveries = _shared((*trace.deliveries, (destination, end)))

    def _add(self, trace: LoggedTrace, evaluation: LoggedEvaluation) -> None:
        if len(trace.evaluations) < _MAX_EVALUATIONS:
            trace.evaluations = (*trace.evaluations, evaluation)
            self._bytes += _size(evaluation)
        else:
            trace.more += 1

    def _trace(self, trace_id: str) -> LoggedTrace:
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = LoggedTrace()
            self._bytes += _TRACE_BYTES
            while len(self._traces) > 1 and (
                len(self._traces) > self._limit or self._bytes > self._max_bytes
            ):
                self._forget_oldest()
        return trace

    def _forget_oldest(self) -> None:
        # Several at a time: the first key is found by scanning the places of the deleted ones.
        for trace_id in list(islice(self._traces, len(self._traces) // _FORGOTTEN_AT_ONCE + 1)):
            trace = self._traces.pop(trace_id)
            self._bytes -= _TRACE_BYTES + len(trace.trace_state) + sum(map(_size, trace.evaluations))


def _logged(trace: LoggedTrace, rule: str, span_id: str) -> LoggedEvaluation | None:
    for each in trace.evaluations:
        if each.rule == rule and each.span_id == span_id:
            return each
    return None


def _size(evaluation: LoggedEvaluation) -> int:
    return _EVALUATION_BYTES + len(evaluation.conversation_id or "")  # strangers choose ids
