"""What happens to a run once it is whole: the rules decide, the lanes score, the outcomes go out.

Lives on the engine's thread only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256

from otel_evals.assembly.build import subruns
from otel_evals.attachment.attacher import Attacher, Opened
from otel_evals.config import Config, Rule
from otel_evals.engine import Accounts, Job, Lane
from otel_evals.model import (
    Dropped,
    Evaluation,
    NotScored,
    Outcome,
    Run,
    Sampled,
    Score,
    ScoredRun,
    ScorerFailure,
    StepRecord,
)
from otel_evals.sampling import picks, recorded_probability

__all__ = ["Judging", "rule_names"]

_logger = logging.getLogger(__name__)


def rule_names(rules: Sequence[Rule]) -> dict[str, Rule]:
    """The rules by the name they are counted under: the scorer's id, and the scope unless it is `run`."""
    return {r.scorer.id if r.scope == "run" else f"{r.scorer.id}@{r.scope}": r for r in rules}


@dataclass(slots=True, eq=False)
class _Ticket:
    """A judged span and what is still to come for it."""

    run: Run
    left: int = 0
    evaluations: list[Evaluation] = field(default_factory=list)

    @property
    def target(self) -> str:
        return self.run.root_span_id


class Judging:
    """Takes runs to their ends.

    Args:
        config: rules and limits.
        accounts: where every run and outcome is counted.
        attacher: where outcomes are attached.
        deliver: takes scored runs.
        settled: called whenever nothing is pending any more.
    """

    def __init__(
        self,
        config: Config,
        accounts: Accounts,
        attacher: Attacher,
        deliver: Callable[[ScoredRun], None],
        settled: Callable[[], None],
    ) -> None:
        self._config = config
        self._accounts = accounts
        self._attacher = attacher
        self._deliver = deliver
        self._settled = settled
        self._rules = rule_names(config.rules)
        self._lanes = {name: Lane(rule, self._begin, self._end) for name, rule in self._rules.items()}
        self._losing = False

    def judge(self, runs: Sequence[Run]) -> set[str]:
        """Ask the rules about the runs of one trace and queue what they picked; returns the judged spans."""
        jobs: list[Job] = []
        for run in runs:
            if run.trace_flags & 1:
                self._accounts.accept()
                jobs += self._jobs(run)
            else:
                self._accounts.ignore("trace_not_sampled")
        for job in jobs:
            self._queue(job)
        return {job.ticket.target for job in jobs}

    def abort(self, reason: str) -> None:
        """Drop everything that has not ended."""
        for lane in self._lanes.values():
            lane.abort(Dropped(reason=reason))

    def _jobs(self, run: Run) -> list[Job]:
        """The jobs the rules make of a run: one per rule, or one for each agent in it."""
        jobs = []
        tickets: dict[str, _Ticket] = {}
        for name, rule in self._rules.items():
            for part in [run] if rule.scope == "run" else subruns(run):
                sampled = self._decide(name, rule, part)
                if sampled is not None:
                    ticket = tickets.setdefault(part.root_span_id, _Ticket(part))
                    ticket.left += 1
                    jobs.append(Job(name, rule, part, sampled, ticket))
        return jobs

    def _decide(self, name: str, rule: Rule, run: Run) -> Sampled | None:
        try:
            applies = rule.when is None or bool(rule.when(run))
            chance = rule.sample.chance(run) if applies else None
        except Exception:
            _logger.warning("a condition of rule %s failed", name, exc_info=True)
            self._accounts.skip(name, "predicate_failed")
            return None
        if chance is None:
            self._accounts.skip(name, "not_applicable")
            return None
        if not picks(chance.probability, int(run.trace_id, 16), run.trace_state):
            self._accounts.skip(name, "sampled_out")
            return None
        self._accounts.sample(name)
        return Sampled(recorded_probability(chance, run.trace_state), str(rule.sample))

    def _queue(self, job: Job) -> None:
        if sum(lane.waiting for lane in self._lanes.values()) < self._config.queue_size:
            self._lanes[job.name].offer(job)
        else:
            job.ended = True
            self._end(job, Dropped(reason="queue_full"))

    def _begin(self, job: Job) -> None:
        opened = self._attacher.open(job.run, job.ticket.target, job.rule.scorer.id, job.started)
        job.opened, job.context = opened, opened.context

    def _end(self, job: Job, outcome: Outcome) -> None:
        evaluation = self._evaluation(job, outcome)
        self._accounts.settle(job.name, evaluation)
        ticket: _Ticket = job.ticket
        opened: Opened | None = job.opened
        try:
            self._attacher.attach(job.run, evaluation, opened)
        except Exception:
            _logger.exception("an evaluation of %s could not be attached", evaluation.scorer_id)
        ticket.evaluations.append(evaluation)
        ticket.left -= 1
        if ticket.left == 0:
            self._attacher.release(job.run.trace_id, ticket.target)
            self._deliver(ScoredRun(run=ticket.run, evaluations=tuple(ticket.evaluations)))
        if isinstance(outcome, Dropped) and not self._losing:
            self._losing = True
            _logger.warning("sampled runs are being dropped (%s); stats() has the counts", outcome.reason)
        if self._accounts.pending == 0:
            self._settled()

    def _evaluation(self, job: Job, outcome: Outcome) -> Evaluation:
        scorer, run, target = job.rule.scorer, job.run, job.ticket.target
        identity = f"{run.trace_id}:{target}:{scorer.id}:{scorer.version}"
        return Evaluation(
            evaluation_id=sha256(identity.encode()).hexdigest()[:32],
            scorer_id=scorer.id,
            scorer_version=scorer.version,
            direction=scorer.direction,
            trace_id=run.trace_id,
            span_id=target,
            outcome=outcome if self._config.capture_content else _without_content(outcome),
            sampled=job.sampled,
            duration=time.monotonic() - job.began if job.began else 0.0,
            attempts=max(1, job.attempts),
            time=time.time_ns(),
        )


def _without_content(outcome: Outcome) -> Outcome:
    """The outcome without anything that quotes the run."""
    match outcome:
        case Score():
            return replace(outcome, explanation=None, steps=_bare(outcome.steps))
        case NotScored():
            return replace(outcome, steps=_bare(outcome.steps))
        case ScorerFailure():
            return replace(outcome, message=outcome.error_type, steps=_bare(outcome.steps))
    return outcome


def _bare(steps: tuple[StepRecord, ...]) -> tuple[StepRecord, ...]:
    return tuple(
        replace(s, result=None, prompt=None, context=replace(s.context, text=None) if s.context else None)
        for s in steps
    )
