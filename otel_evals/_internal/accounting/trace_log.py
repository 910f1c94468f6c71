"""The trace log: what happened to each of the most recent traces, for `explain`.

Written on the engine's thread, at a few microseconds per run; read from any thread. Bounded by traces and
bytes: the oldest are evicted first. It holds no content of runs.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec

from otel_evals._internal.model import Evaluation, Run, Score, ScoredRun
from otel_evals._internal.sampling.algebra import Chance

# Measured with two short rules; ids and shared texts included.
_TRACE_BYTES = 400
_EVALUATION_BYTES = 250
_MAX_EVALUATIONS = 500
_DIALECT = attrgetter("dialect")


class LoggedEvaluation(msgspec.Struct, eq=False, gc=False):
    """What one rule decided about one target, and what came of it."""

    rule: str
    """The rule's name."""
    span_id: str
    status: str
    """`waiting` (for another rule's outcome), `awaiting_idle` (a conversation), `not_sampled`, `queued` (or
    already running), `stored`, or the outcome: `scored`, `not_scored`, `failed`, `dropped`."""
    reason: str | None = None
    chance: Chance | None = None
    value: float | None = None
    attempts: int = 0
    duration: float = 0.0
    """Seconds."""
    conversation_id: str | None = None
    """Set where a conversation is the target; the traces of its runs share one object."""
    until: float = 0.0
    """While `awaiting_idle`: when the conversation counts as idle, in seconds since the Unix epoch."""


class LoggedTrace(msgspec.Struct, eq=False, gc=False):
    """What the log holds of one trace; the garbage collector does not look at ten thousand of them."""

    spans: int = 0
    """Spans that were assembled."""
    runs: int = 0
    dialects: tuple[str, ...] = ()
    trace_state: str = ""
    ignored: Counter[str] | None = None
    """Runs, spans and log records that were ignored, by reason."""
    evaluations: tuple[LoggedEvaluation, ...] = ()
    more: int = 0
    """Evaluations beyond those kept."""
    deliveries: tuple[tuple[str, str], ...] = ()
    """For each delivery of a scored run: the destination, and `exported` or the reason why not."""

    def evaluation(self, rule: str, span_id: str) -> LoggedEvaluation | None:
        """The entry of a rule and a judged span; None if there is none."""
        for each in self.evaluations:
            if each.rule == rule and each.span_id == span_id:
                return each
        return None


class TraceLog:
    """The most recent traces, by trace id.

    Args:
        limit: how many traces are kept.
        max_bytes: how much memory they may take, approximately.
    """

    def __init__(self, limit: int = 10_000, max_bytes: int = 24 * 1024 * 1024) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._traces: OrderedDict[str, LoggedTrace] = OrderedDict()
        self._bytes = 0
        self._deliveries: dict[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]] = {}
        self._dialects: dict[frozenset[str], tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._traces)

    def get(self, trace_id: str) -> LoggedTrace | None:
        """The entry of a trace; None if it was never logged or has been evicted."""
        return self._traces.get(trace_id)

    def assembled(self, trace_id: str, spans: int, runs: Iterable[Run]) -> None:
        """Log that spans of a trace were assembled into runs."""
        trace = self._trace(trace_id)
        trace.spans += spans
        for run in runs:
            trace.runs += 1
            self._bytes += len(run.trace_state) - len(trace.trace_state)
            trace.trace_state = run.trace_state
            names = frozenset(trace.dialects).union(map(_DIALECT, run.operations))
            dialects = self._dialects.get(names)
            if dialects is None:
                dialects = self._dialects[names] = tuple(sorted(names))
            trace.dialects = dialects

    def ignored(self, trace_id: str, reason: str, count: int = 1) -> None:
        """Log that runs, spans or log records of a trace were ignored."""
        trace = self._trace(trace_id)
        if trace.ignored is None:
            trace.ignored = Counter()
        trace.ignored[reason] += count

    def decided(
        self, run: Run, rule: str, status: str, reason: str | None = None, chance: Chance | None = None
    ) -> None:
        """Log a rule's decision about a run: `waiting`, `not_sampled` or `queued`."""
        trace = self._traces.get(run.trace_id) or self._trace(run.trace_id)
        known = trace.evaluation(rule, run.root_span_id) if trace.evaluations else None
        if known is not None:
            known.status, known.reason, known.chance = status, reason, chance
        else:
            self._add(trace, LoggedEvaluation(rule, run.root_span_id, status, reason, chance))

    def awaits_idle(self, run: Run, evaluation: LoggedEvaluation) -> None:
        """Log that a run's conversation will be judged when it is idle."""
        trace = self._trace(run.trace_id)
        if evaluation not in trace.evaluations:
            self._add(trace, evaluation)

    def stored(self, run: Run, rule: str, reason: str) -> None:
        """Log that the evaluation of a run was put back into the store."""
        known = self._trace(run.trace_id).evaluation(rule, run.root_span_id)
        if known is not None:
            known.status, known.reason = "stored", reason

    def ended(self, rule: str, evaluation: Evaluation, status: str, reason: str | None) -> None:
        """Log the outcome of an evaluation."""
        trace = self._traces.get(evaluation.trace_id)
        known = None if trace is None else trace.evaluation(rule, evaluation.span_id)
        if known is not None:
            outcome = evaluation.outcome
            known.value = outcome.value if isinstance(outcome, Score) else None
            known.status, known.reason = status, reason
            known.attempts, known.duration = evaluation.attempts, evaluation.duration

    def delivered(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        """Log how a delivery ended: `exported`, or the reason why not."""
        for scored in batch:
            trace = self._traces.get(scored.run.trace_id)
            if trace is not None and len(trace.deliveries) < _MAX_EVALUATIONS:
                trace.deliveries = self._shared((*trace.deliveries, (destination, end)))

    def _shared(self, deliveries: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
        """The same tuple for all traces with the same deliveries, to save memory."""
        if len(self._deliveries) < _MAX_EVALUATIONS:
            return self._deliveries.setdefault(deliveries, deliveries)
        return self._deliveries.get(deliveries, deliveries)

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
        _, trace = self._traces.popitem(last=False)
        self._bytes -= _TRACE_BYTES + len(trace.trace_state) + sum(map(_size, trace.evaluations))


def _size(evaluation: LoggedEvaluation) -> int:
    return _EVALUATION_BYTES + len(evaluation.conversation_id or "")
