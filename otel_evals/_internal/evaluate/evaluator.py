"""The stages from a run to its scores: the rules decide, scorers run, outcomes are attached and delivered.

Lives on the engine's thread only.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Callable, Iterable, Sequence

from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.attach.attacher import Attacher, Opened
from otel_evals._internal.attach.content_removal import without_content
from otel_evals._internal.config.options import Config
from otel_evals._internal.evaluate.conversation_stage import JoinedConversation
from otel_evals._internal.evaluate.job import Job, Target
from otel_evals._internal.evaluate.progress import Progress
from otel_evals._internal.evaluate.queue_interface import DurableQueue, Resumption
from otel_evals._internal.evaluate.scheduler import Scheduler
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.model import Dropped, Evaluation, Loss, NotScored, Outcome, Run, Score, ScoredRun
from otel_evals._internal.read.identity import evaluation_id
from otel_evals._internal.read.rejoin import group_of
from otel_evals._internal.read.runs import subruns
from otel_evals._internal.redaction.redactor import redacted
from otel_evals._internal.sampling.decide import Decider, Decision, RunDecisions, chance_of
from otel_evals._internal.util.error_log import tell

__all__ = ["Evaluations"]

_logger = logging.getLogger(__name__)


class Evaluations:
    """Takes runs to their ends.

    Args:
        config: rules and limits.
        ledger: is told what becomes of every run.
        attacher: puts outcomes where the traces are.
        deliver: takes scored runs that the store does not see to.
        store: keeps sampled runs until they are scored and delivered.
        settled: set whenever no evaluation is pending; shared by those whose runs the ledger counts.
        progress: knows which evaluations were made before.
    """

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        attacher: Attacher,
        deliver: Callable[[ScoredRun], object],
        store: DurableQueue,
        settled: asyncio.Event | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._ledger = ledger
        self._attacher = attacher
        self._deliver = deliver
        self._store = store
        self._progress = progress
        self._capture_content = config.capture_content
        self._rules = {rule.name: rule for rule in config.rules}
        self._decider = Decider(config.rules)
        self._scopes = sorted({r.scope for r in config.rules if r.scope != "conversation"}, reverse=True)
        self._opened: dict[Job, Opened] = {}
        self._warned: set[str] = set()
        self._settled = settled or asyncio.Event()
        self.live: set[Job] = set()
        """Jobs that were submitted and have not left."""
        self.scheduler = Scheduler(config.rules, config.queue_size, config.max_bytes, self._start, self._end)

    def score(self, runs: Iterable[Run], group: SpanGroup) -> list[Target]:
        """Ask the rules about runs and start what they sampled; returns the targets of that.

        Args:
            runs: those that a group of spans came to.
            group: the spans, for the store.
        """
        jobs: list[Job] = []
        for run in runs:
            if run.trace_flags & 1:
                self._ledger.accepted(run)
                jobs += self._jobs_of(run)
            else:
                self._ledger.lost(Loss("run", "trace_not_sampled", run.trace_id))
        self._store.keep(group, jobs)
        self.submit(jobs)
        return list(dict.fromkeys(job.target for job in jobs))

    def score_conversation(self, joined: JoinedConversation) -> None:
        """Ask rules about a conversation and start what they sampled."""
        run = joined.run
        if joined.ruled_out:
            self._ledger.decided(run, self._decider.rule_out(joined.asked_with))
            return
        target = Target(run, run.root_span_id, joined.revision)
        jobs = self._decide(target, run, joined.asked_with)
        if jobs and joined.lost is None:
            self._store.keep(group_of(run.turns), jobs)
        self.submit(jobs, joined.lost)

    def resume(self, resumptions: Sequence[Resumption]) -> list[Job]:
        """Make jobs of what the store kept; `submit` starts them."""
        jobs: list[Job] = []
        targets: dict[str, Target] = {}
        for each in resumptions:
            rule, run = self._rules[each.rule], each.run
            target = targets.setdefault(run.root_span_id, Target(run, run.root_span_id, each.revision))
            decisions = target.decisions.setdefault(rule.asked_with, RunDecisions(run))
            chance = decisions.sampled[rule.scorer_id] = chance_of(each.sampled, run)
            target.awaited.add(rule.name)
            self._ledger.resumed(run, rule.name, chance)
            jobs.append(Job(rule, run, each.sampled, target))
        for target in targets.values():
            for asked_with, decisions in target.decisions.items():
                self._tell(decisions.run, self._decider.resume(decisions, asked_with))
                target.awaited.update(rule.name for rule in decisions.waiting)
        return jobs

    def submit(self, jobs: Iterable[Job], drop: str | None = None) -> None:
        """Start jobs, or drop them for a reason."""
        for job in jobs:
            self.live.add(job)
            known = self._progress.known(job) if self._progress and drop is None else None
            if known is not None:
                self._conclude(job, known, known.outcome)
            elif drop is None and any(o.span.spans_dropped for o in job.run.operations):
                self.finish(job, NotScored(reason="run_truncated"))
            else:
                self.scheduler.submit(job, drop)

    def withdraw(self, job: Job, reason: str) -> None:
        """End a job without an outcome: the store keeps it for later."""
        target, rule = job.target, job.rule
        self._ledger.stored(job.run, rule.name, reason)
        opened = self._opened.pop(job, None)
        if opened is not None:
            self._attacher.abandon(opened, "stored", reason, job.paused)
        for gone in target.decisions[rule.asked_with].give_up(rule.scorer_id):
            target.awaited.discard(gone.name)
        self._leave(job)

    async def settled(self, seconds: float) -> bool:
        """Wait until no evaluation is pending; whether that was so within these seconds."""
        while self._ledger.pending:
            self._settled.clear()
            try:
                await asyncio.wait_for(self._settled.wait(), max(0.0, seconds))
            except TimeoutError:
                return False
        return True

    def finish(self, job: Job, outcome: Outcome) -> None:
        """End a job with an outcome."""
        if job.run.unreadable and not isinstance(outcome, Dropped):
            outcome = NotScored(reason="unreadable")  # whatever its scorer made of what was missing
        evaluation = self._evaluation(job, outcome)
        if self._progress:
            self._progress.ended(evaluation, job.run)
        self._conclude(job, evaluation, outcome)

    # --- deciding ---

    def _jobs_of(self, run: Run) -> list[Job]:
        """The jobs that the rules make of a run: one per rule, or one for each agent in it."""
        jobs: list[Job] = []
        targets: dict[str, Target] = {}
        for scope in self._scopes:
            for part in [run] if scope == "run" else subruns(run):
                target = targets.get(part.root_span_id)
                if target is None:
                    target = targets[part.root_span_id] = Target(part, part.root_span_id)
                jobs += self._decide(target, part, scope)
        return jobs

    def _decide(self, target: Target, run: Run, asked_with: str) -> list[Job]:
        decisions, decided = self._decider.decide(run, asked_with)
        self._tell(run, decided)
        target.decisions[asked_with] = decisions
        target.awaited.update(each.rule.name for each in decided if each.status != "not_sampled")
        return [_job(each, target, decisions) for each in decided if each.status == "sampled"]

    def _follow(self, job: Job, outcome: Outcome) -> None:
        """Have the rules decide that waited for this outcome."""
        target, rule = job.target, job.rule
        decisions = target.decisions[rule.asked_with]
        if not decisions.waiting:
            return
        decided = self._decider.follow(decisions, rule.scorer_id, outcome)
        self._tell(job.run, decided)
        for each in decided:
            if each.status == "not_sampled":
                target.awaited.discard(each.rule.name)
            elif each.status == "sampled":
                following = _job(each, target, decisions)
                self._store.add(following)
                self.submit([following])

    def _tell(self, run: Run, decisions: Sequence[Decision]) -> None:
        """Count decisions; log a rule's first failure, since the next thousand will be the same."""
        self._ledger.decided(run, decisions)
        for each in decisions:
            if each.error is not None and each.rule.name not in self._warned:
                self._warned.add(each.rule.name)
                message = "a condition of rule %s failed; further failures are only counted"
                tell(_logger, message, each.rule.name, error=each.error, level=logging.WARNING)

    # --- scoring ---

    def _conclude(self, job: Job, evaluation: Evaluation, outcome: Outcome) -> None:
        self._ledger.ended(job.rule.name, evaluation, job.error)
        job.error = None
        self._attacher.attach(job.run, evaluation, self._opened.pop(job, None))
        job.target.evaluations.append(evaluation)
        self._follow(job, outcome)
        self._leave(job)

    def _start(self, job: Job) -> contextvars.Context:
        before = self._opened.get(job)
        if before is not None:
            self._attacher.abandon(before, "retried", end_time=job.paused)
        rule = job.rule
        opened = self._attacher.open(job.run, job.target.span_id, rule.name, rule.scorer_id, job.started)
        self._opened[job] = opened
        return opened.context

    def _end(self, job: Job, outcome: Outcome) -> None:
        if isinstance(outcome, Score | NotScored) or not self._store.defer(job, outcome):
            self.finish(job, outcome)

    def _leave(self, job: Job) -> None:
        """One outcome less to come for a target; after the last, the target is complete."""
        target = job.target
        self.live.discard(job)
        target.awaited.discard(job.rule.name)
        if not target.awaited:
            self._complete(target)
        if not self._ledger.counters.pending:
            self._settled.set()

    def _complete(self, target: Target) -> None:
        """All that was to come for a target is there: deliver it."""
        if not target.run.turns:  # a conversation's spans are not held for it
            self._attacher.release(target.run.trace_id, target.span_id)
        stored = self._store.deliver(target)
        if not stored and target.evaluations:
            self._deliver(ScoredRun(run=target.run, evaluations=tuple(target.evaluations)))

    def _evaluation(self, job: Job, outcome: Outcome) -> Evaluation:
        scorer, run = job.rule.scorer, job.run
        return Evaluation(
            evaluation_id=evaluation_id(run, job.rule.evaluates_as, scorer.version),
            scorer_id=scorer.id,
            scorer_version=scorer.version,
            direction=scorer.direction,
            scale=getattr(scorer, "scale", None),
            trace_id=run.trace_id,
            span_id=job.target.span_id,
            outcome=redacted(outcome) if self._capture_content else without_content(outcome),
            sampled=job.sampled,
            duration=time.monotonic() - job.began if job.began else 0.0,
            attempts=max(1, job.attempts),
            revision=job.revision or job.target.revision,
            time=time.time_ns(),
            rule=job.rule.name,
            conversation_id=run.conversation_id if run.turns else None,
        )


def _job(decision: Decision, target: Target, decisions: RunDecisions) -> Job:
    rule = decision.rule
    return Job(rule, decisions.run, decisions.on_record[rule.scorer_id], target)
