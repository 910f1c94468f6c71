"""The ledger: the one place where the pipeline reports what happens to runs.

It updates the counters and the trace log together. Written on the engine's thread, read from any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from otel_evals._internal.accounting.content_log import ContentLog
from otel_evals._internal.accounting.counters import Counters, Stats
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

    def accepted(self, run: Run) -> None:
        """The rules are evaluated for a run."""
        self.counters.accept()
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
