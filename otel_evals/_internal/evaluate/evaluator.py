"""From a run to its delivered scores: rules decide, scorers run, outcomes are attached and delivered.

Read `_attempt` and `end` for the path from a scorer to the delivery of its score.
Used on the engine's thread only.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

from msgspec.structs import replace

from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.attach.content_removal import without_content
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.evaluate.check import Check
from otel_evals._internal.evaluate.conversation_gatherer import JoinedConversation
from otel_evals._internal.evaluate.job import Job, Result, Target
from otel_evals._internal.evaluate.progress import Progress
from otel_evals._internal.evaluate.queue_interface import DurableQueue, Resumption
from otel_evals._internal.evaluate.repetition import judged_spans, lacks_spans, repetitions
from otel_evals._internal.evaluate.scheduler import Lane, Scheduler
from otel_evals._internal.evaluate.under_way import UnderWay, decided_by_checks
from otel_evals._internal.gather.gatherer import Judged, SpanGroup
from otel_evals._internal.model import (
    Dropped,
    Evaluation,
    Loss,
    NotScored,
    OperationKind,
    Outcome,
    Run,
    Sampled,
    Score,
    ScoredRun,
    ScorerFailure,
    StepRecord,
)
from otel_evals._internal.model.derived import DERIVATION
from otel_evals._internal.read.conversation import evaluation_id
from otel_evals._internal.read.reader import group_of
from otel_evals._internal.read.runs import subruns
from otel_evals._internal.redaction.redactor import private_context, redacted
from otel_evals._internal.sampling.algebra import inclusion_probability
from otel_evals._internal.sampling.decide import CHECKED, Decider, Decision, RunDecisions, chance_of
from otel_evals._internal.scoring.outcome import failure_of, root_cause, steps_of_error, to_outcome
from otel_evals._internal.scoring.scorer import Scorer, StepFailure
from otel_evals._internal.util.cancellation import is_cancelled

_AT_ONCE_SECONDS = 0.001
"""How long queued jobs of a scorer that never waits run before other work gets a turn."""
_CLEANUP_SECONDS = 0.05
"""Seconds after its timeout in which a cancelled scorer may still return a partial result."""


class Evaluator:
    """Evaluates runs by the rules of a configuration.

    Args:
        config: rules and limits.
        ledger: counts runs and evaluations.
        attacher: attaches outcomes to the traces.
        deliver: called with scored runs that the store does not deliver.
        store: keeps sampled runs until delivery.
        settled: set whenever no evaluation is pending; shared by evaluators with one ledger.
        progress: returns evaluations made before.
        draw: returns random numbers in [0, 1), for the jitter of retries.
    """

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        attacher: Attacher,
        deliver: Callable[[ScoredRun], object] | None,
        store: DurableQueue,
        settled: asyncio.Event | None = None,
        progress: Progress | None = None,
        draw: Callable[[], float] = random.random,
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
        self._settled = settled or asyncio.Event()
        self._done = self._cancelled_early  # one bound method for all attempts
        self._under_way = UnderWay()
        self.live: set[Job] = set()
        """Jobs that were submitted and have not ended."""
        self._context = private_context(config.redact, content=config.capture_content)
        """For the steps after an attempt, which must not run in the scorer's context."""
        self.scheduler = self._context.run(Scheduler, config.rules, config.queue_size, config.max_bytes, draw)

    def score(self, runs: Sequence[Run], group: SpanGroup) -> list[Target]:
        """Decide about the runs of a group of spans and start the sampled jobs; returns their targets."""
        jobs: list[Job] = []
        checked: list[Target] = []
        for run in runs:
            if run.trace_flags & 1:
                target = self._under_way.close(run) if self._under_way.targets else None
                checked += () if target is None else (target,)
                jobs += self._jobs_of(run, target, group.judged)
            else:
                self._ledger.lost(Loss("run", "trace_not_sampled", run.trace_id))
        for target in checked:
            for evaluation in target.evaluations:
                self._attacher.show(target.run, evaluation)
        if group.judged is not None:
            jobs += self.resume([*repetitions(runs, group.judged, self._rules)])
        self._store.keep(group, jobs)
        self.submit(jobs, size=group.size if len(runs) == 1 else 0)
        if checked:
            judged = {job.target for job in jobs}
            for target in checked:
                if target not in judged:
                    self._complete(target)
        return list(dict.fromkeys((*checked, *(job.target for job in jobs))))

    def check(self, check: Check, run: Run) -> None:
        """Start the evaluation of a run that is under way."""
        known = self._rules.get(check.rule.name)
        if known is not None and known.facts.version != check.rule.facts.version:
            return self.refuse(check, "other_version", "a rule has this scorer's id and another version")
        rule = check.rule = known or self._add(check.rule)
        target = self._under_way.target_of(run)
        sampled = Sampled(inclusion_probability(CHECKED, run), "check")
        known_as = evaluation_id(run, rule.evaluates_as, rule.facts.version)
        name = f"check {id(check)}"
        job = Job(rule, run, sampled, target, known_as, check=check, awaited_as=name)
        target.awaited[name] = None
        if not check.partial:
            self._count(job)
        self.submit([job])
        return None

    def refuse(self, check: Check, reason: str, explanation: str) -> None:
        """Count a check that finds nothing to evaluate, and give its verdict."""
        self._ledger.refused(check.rule.name, reason)
        check.expire(reason, explanation)

    def deliver_checked(self, until: float) -> None:
        """Deliver the checks before a time of `time.monotonic` whose runs have not closed."""
        for target in self._under_way.left_since(until):
            self._complete(target)

    def score_conversation(self, joined: JoinedConversation) -> None:
        run, due = joined.run, joined.due
        if due.conversation.ruled_out:
            self._ledger.decided(run, self._decider.rule_out(due.asked_with))
            return
        revision = due.conversation.revisions[due.asked_with]
        target = Target(run, run.root_span_id, revision, run.trace_id, run.conversation_id)
        jobs, decided = self._decide(target, run, due.asked_with)
        self._ledger.decided(run, decided)
        if jobs and due.lost is None:
            self._store.keep(group_of(run.turns), jobs)
        self.submit(jobs, due.lost)

    def resume(self, resumptions: Sequence[Resumption]) -> list[Job]:
        """Create jobs of evaluations from the store; `submit` starts them."""
        jobs: list[Job] = []
        targets: dict[str, Target] = {}
        for each in resumptions:
            rule, run = self._rules[each.rule], each.run
            conversation_id = run.conversation_id if run.turns else None
            made = Target(run, run.root_span_id, each.revision, run.trace_id, conversation_id)
            target = targets.setdefault(run.root_span_id, made)
            decisions = target.decisions.setdefault(rule.asked_with, RunDecisions(run))
            chance = decisions.sampled[rule.scorer_id] = chance_of(each.sampled, run)
            target.awaited[rule.name] = None
            self._ledger.resumed(run, rule.name, chance)
            jobs.append(
                Job(
                    rule, run, each.sampled, target, evaluation_id(run, rule.evaluates_as, rule.facts.version)
                )
            )
        for target in targets.values():
            for asked_with, decisions in target.decisions.items():
                self._ledger.decided(decisions.run, self._decider.resume(decisions, asked_with))
                target.awaited.update(dict.fromkeys(decisions.waiting))
        return jobs

    def submit(self, jobs: Iterable[Job], drop: str | None = None, size: int = 0) -> None:
        """Start jobs, or drop them for a reason; `size` is the size of their run in bytes, if known."""
        for job in jobs:
            self.live.add(job)
            lane = self.scheduler.lanes[job.rule.name]
            known = self._progress.known(job) if self._progress and drop is None else None
            if known is not None:
                self.end(job, known.outcome, known)
            elif drop is None and lacks_spans(job.run):
                self.end(job, NotScored(reason="run_truncated"))
            elif reason := drop or self.scheduler.stopped_for:
                self.end(job, Dropped(reason=reason))
            elif lane.ready and not lane.queue and len(lane.running) < lane.rule.concurrency:
                self._start(lane, job)
                if not job.ended:
                    self.scheduler.hold(job, size)
            else:
                for dropped in self.scheduler.queue(job):
                    self.end(dropped, Dropped(reason="queue_full"))

    def withdraw(self, job: Job, reason: str) -> None:
        """End a job without an outcome: the store keeps it for later."""
        target, rule = job.target, job.rule
        self._ledger.stored(job.run, rule.name, reason)
        if job.opened is not None:
            self._attacher.abandon(job.opened, "stored", reason, job.paused)
            job.opened = None
        for name in self._decider.give_up(target.decisions[rule.asked_with], rule.scorer_id):
            target.awaited.pop(name, None)
        self._leave(job)

    async def settled(self, seconds: float) -> bool:
        """Wait until no evaluation is pending; returns False after a timeout."""
        while self._ledger.pending:
            self._settled.clear()
            try:
                await asyncio.wait_for(self._settled.wait(), max(0.0, seconds))
            except TimeoutError:
                return False
        return True

    async def prepare(self) -> None:
        await asyncio.gather(*map(self._prepare, self.scheduler.lanes.values()))

    def abort(self, reason: str) -> None:
        """Drop all jobs that have not ended, and all that are submitted later."""
        self.scheduler.stopped_for = reason
        for lane in self.scheduler.lanes.values():
            for job in lane.clear():
                if not job.ended:
                    self.end(job, Dropped(reason=reason))
        self.deliver_checked(inf)

    # --- checks ---

    def _add(self, rule: Rule) -> Rule:
        """Add a rule for a scorer that only checks use."""
        self._rules[rule.name] = rule
        self._ledger.add_rules([rule.name])
        self._attacher.learn(rule.name, rule.facts.scale)
        lane = self.scheduler.add(rule)
        if not lane.ready:
            lane.preparing = asyncio.ensure_future(self._prepare(lane))
        return rule

    def _count(self, job: Job) -> None:
        """Count a check as an evaluation of its rule."""
        name, checks = job.rule.name, job.target.checks
        job.revision = checks[name] = checks.get(name, 0) + 1
        if job.revision == 1:
            self._ledger.decided(job.run, [Decision(job.rule, "sampled", chance=CHECKED, asked=False)])
        else:
            self._ledger.resumed(job.run, name, CHECKED)

    def _lets_pass(self, check: Check, job: Job, outcome: Outcome) -> bool:
        """Give a check's verdict; returns True if it lets a part of an answer pass, which is not counted."""
        verdict = check.settle(check.policy.verdict(outcome))
        if not check.partial or not verdict.allowed:
            if check.partial:
                self._count(job)
            return False
        check.steps.extend(getattr(outcome, "steps", ()))
        if job.opened is not None:
            self._attacher.abandon(job.opened, "partial", end_time=job.paused)
            job.opened = None
        self._leave(job)
        return True

    # --- deciding ---

    def _jobs_of(self, run: Run, checked: Target | None, judged: Judged | None) -> list[Job]:
        """Create the jobs of a run: one per rule that samples it, or one for each agent in it."""
        # If the earlier evaluations of the trace are known, there are none of this run.
        revision = judged.revision if judged and judged.evaluated is None else 1
        known = judged_spans(judged)
        jobs: list[Job] = []
        decisions: list[tuple[Run, Sequence[Decision]]] = []
        targets = {} if checked is None else {run.root_span_id: checked}
        for scope in self._scopes:
            parts = [run] if scope == "run" else subruns(run)
            agents = [*run.of_kind(OperationKind.AGENT)] if scope == "agent" else parts
            if deeper := len(agents) - len(parts):
                self._ledger.lost(Loss("span", "agent_too_deep", run.trace_id, deeper))
            for part in parts:
                if part.root_span_id in known:
                    continue
                target = targets.get(part.root_span_id)
                if target is None:
                    target = targets[part.root_span_id] = Target(
                        part, part.root_span_id, revision, part.trace_id
                    )
                sampled, decided = self._decide(target, part, scope)
                jobs += sampled
                decisions.append((part, decided))
        if decisions or not known:
            self._ledger.accepted(run, decisions)
        return jobs

    def _decide(self, target: Target, run: Run, asked_with: str) -> tuple[list[Job], Sequence[Decision]]:
        early = decided_by_checks(target, self._rules) if target.checks and asked_with == "run" else None
        decisions, decided = self._decider.decide(run, asked_with, early)
        target.decisions[asked_with] = decisions
        jobs = []
        for each in decided:
            if each.status != "not_sampled":
                target.awaited[each.rule.name] = None
            if each.status == "sampled":
                jobs.append(_job(each, target, decisions))
        return jobs, decided

    def _follow(self, job: Job, outcome: Outcome) -> None:
        """Decide the rules that waited for this outcome, and start the sampled jobs."""
        target, rule = job.target, job.rule
        decisions = target.decisions[rule.asked_with]
        decided = self._decider.follow(decisions, rule.scorer_id, outcome)
        self._ledger.decided(job.run, decided)
        for each in decided:
            if each.status == "not_sampled":
                target.awaited.pop(each.rule.name, None)
            elif each.status == "sampled":
                following = _job(each, target, decisions)
                self._store.add(following)
                self.submit([following])

    # --- one evaluation ---

    def _start(self, lane: Lane, job: Job) -> None:
        """Begin an attempt; if the scorer never waits, the attempt has ended when this returns."""
        if (lane.abandoned or lane.threads.calls) and (failure := lane.stuck) is not None:
            return self.end(job, failure)
        if job.opened is not None:
            self._attacher.abandon(job.opened, "retried", end_time=job.paused)
        rule = job.rule
        lane.running[job] = None
        job.attempts += 1
        job.started, job.began, job.paused = time.time_ns(), time.monotonic(), None
        span_id = job.target.span_id if job.check is None else job.check.span_id(job.run)
        opened = job.opened = self._attacher.open(
            job.run, span_id, rule.name, rule.scorer_id, job.started, lane.context.copy()
        )
        if lane.rule.facts.at_once:
            return self._attempted(lane, job, opened.context.run(_score_at_once, lane.scorer, job.run))
        job.task = asyncio.get_running_loop().create_task(self._attempt(lane, job), context=opened.context)
        job.on_done = self._done
        job.task.add_done_callback(job, context=self._context)
        if lane.watch is None:
            self._watch(lane)
        return None

    async def _attempt(self, lane: Lane, job: Job) -> None:
        """Run one attempt: call the scorer, and end or retry the job."""
        task = job.task
        try:
            result: Result = await lane.scorer.score(job.run)
        except BaseException as error:  # not even SystemExit may end the engine
            if task is not _current_task(task):
                raise  # the loop is gone, and this coroutine is closed
            result = _ended_early(steps_of_error(error)) if is_cancelled(error) else error
        if job.task is task:
            job.task = None
            self._context.run(self._attempted, lane, job, result)
        else:  # its job has ended meanwhile
            lane.abandoned.discard(task)

    def _cancelled_early(self, job: Job, task: asyncio.Task[None]) -> None:
        """End an attempt whose task was cancelled before its first step: `_attempt` never ran."""
        if job.task is task:
            job.task = None
            lane = self.scheduler.lanes[job.rule.name]
            self._attempted(lane, job, _ended_early(()))

    def _attempted(self, lane: Lane, job: Job, result: Result) -> None:
        """End the job with the outcome of an attempt, or schedule another attempt."""
        outcome: Outcome
        if not isinstance(result, BaseException):
            outcome = to_outcome(result, attempts=job.attempts)
        elif job.timed_out:
            outcome = replace(lane.timeout(job), steps=steps_of_error(result))
        elif (seconds := lane.seconds_until_retry(job, result)) is not None:
            return self._retry_later(lane, job, seconds)
        else:
            job.error = root_cause(result)
            outcome = failure_of(result, attempts=job.attempts)
        self.end(job, outcome)
        return None

    def end(self, job: Job, outcome: Outcome, known: Evaluation | None = None) -> None:
        """End an evaluation with its outcome; the last evaluation of a target delivers the scored run.

        Args:
            job: queued, running, or returned by the store.
            outcome: the scorer's result; content and secrets are removed here, once.
            known: the evaluation, if it was made before.
        """
        lane, target, rule = self.scheduler.lanes[job.rule.name], job.target, job.rule
        self.scheduler.release(job)
        try:
            if known is None:
                may_pass = isinstance(outcome, ScorerFailure | Dropped)
                if may_pass and self._store.defer(job, outcome):
                    return
                if is_unreadable(job.run) and not isinstance(outcome, Dropped):
                    outcome = NotScored(reason="unreadable")  # the scorer saw only a part
            evaluation = known or self._conclude(job, outcome)
            if job.check is not None:
                if self._lets_pass(job.check, job, evaluation.outcome):
                    return
                evaluation = job.check.note(evaluation, job.revision, target.evaluations)
            self._ledger.ended(rule.name, evaluation, job.error)
            self._attacher.attach(job.run, evaluation, job.opened)
            if job.check is None:
                target.evaluations += (evaluation,)
            else:
                target.take(evaluation)
            job.error = job.opened = None
            if target.decisions[rule.asked_with].waiting:
                self._follow(job, outcome)
            self._leave(job)
        finally:
            if lane.queue:
                self._fill(lane)

    def _conclude(self, job: Job, outcome: Outcome) -> Evaluation:
        """Return the evaluation of an outcome, without content or secrets that must not leave the process."""
        facts, run = job.rule.facts, job.run
        evaluation = Evaluation(
            evaluation_id=job.evaluation_id,
            scorer_id=facts.id,
            scorer_version=facts.version,
            direction=facts.direction,
            scale=facts.scale,
            trace_id=job.target.trace_id,
            span_id=job.target.span_id,
            outcome=redacted(outcome) if self._capture_content else without_content(outcome),
            sampled=job.sampled,
            duration=time.monotonic() - job.began if job.began else 0.0,
            attempts=max(1, job.attempts),
            revision=job.revision or job.target.revision,
            time=time.time_ns(),
            rule=job.rule.name,
            review=_review(job.rule, outcome),
            conversation_id=job.target.conversation_id,
        )
        if self._progress:
            self._progress.ended(evaluation, run)
        return evaluation

    def _leave(self, job: Job) -> None:
        """Remove a job that has ended from its target, and deliver the target after its last job."""
        self.live.discard(job)
        job.target.awaited.pop(job.awaited_as or job.rule.name, None)
        self._complete(job.target)
        if not self._ledger.pending:
            self._settled.set()

    def _complete(self, target: Target) -> None:
        """Deliver a target, unless its run is under way or an outcome is awaited."""
        if target.awaited or target.under_way is not None:
            return
        # The spans of a conversation are not held.
        if self._attacher.scores is not None and target.conversation_id is None:
            self._attacher.scores.release(target.trace_id, target.span_id)
        stored = self._store.deliver(target)
        if self._deliver is not None and target.evaluations and not stored:
            self._deliver(ScoredRun(run=target.run, evaluations=target.evaluations))

    # --- slots, timeouts, retries ---

    async def _prepare(self, lane: Lane) -> None:
        await lane.prepare()
        self._fill(lane)

    def _fill(self, lane: Lane) -> None:
        """Start queued jobs while there are free slots."""
        if lane.filling or not lane.ready:
            return  # called from within the loop below, by a job that ended at once
        lane.filling = True
        try:
            until = time.monotonic() + _AT_ONCE_SECONDS
            while lane.queue and len(lane.running) < lane.rule.concurrency:
                self._start(lane, lane.queue.popleft())
                if lane.rule.facts.at_once and lane.queue and time.monotonic() > until:
                    asyncio.get_running_loop().call_soon(self._fill, lane)
                    break
        finally:
            lane.filling = False

    def _watch(self, lane: Lane) -> None:
        """End overdue attempts. They began in order and share one timeout, so one timer is enough."""
        loop = asyncio.get_running_loop()
        for job in lane.overdue():
            # A scorer that lacks only its reason may still return a score.
            if job.task is not None and not job.task.done():
                job.timer = loop.call_later(_CLEANUP_SECONDS, self._give_up, lane, job, context=self._context)
                job.task.cancel()
        left = lane.seconds_left
        lane.watch = None if left is None else loop.call_later(left, self._watch, lane, context=self._context)

    def _give_up(self, lane: Lane, job: Job) -> None:
        if not job.ended:
            self.end(job, lane.timeout(job))

    def _retry_later(self, lane: Lane, job: Job, seconds: float) -> None:
        """Free the slot until the next attempt."""
        job.paused = time.time_ns()
        lane.release(job)
        lane.retrying.add(job)
        loop = asyncio.get_running_loop()
        job.timer = loop.call_later(seconds, self._retry, lane, job, context=self._context)
        self._fill(lane)

    def _retry(self, lane: Lane, job: Job) -> None:
        lane.retrying.discard(job)
        if not job.ended:
            lane.queue.appendleft(job)
            self._fill(lane)


def is_unreadable(run: Run) -> bool:
    """Return True if reading the content of a run has failed."""
    for operation in run.operations:
        derivation = operation.__dict__.get(DERIVATION)
        if derivation is not None and derivation.failed:
            return True
    return False


def _job(decision: Decision, target: Target, decisions: RunDecisions) -> Job:
    rule = decision.rule
    run = decisions.run
    id = evaluation_id(run, rule.evaluates_as, rule.facts.version)
    return Job(rule, run, decisions.on_record[rule.scorer_id], target, id)


def _review(rule: Rule, outcome: Outcome) -> str | None:
    """Return the condition of a rule that sends a score to review."""
    sent = rule.reviews is not None and isinstance(outcome, Score) and rule.reviews(outcome.value)
    return rule.review if sent else None


def _score_at_once(scorer: Scorer, run: Run) -> Result:
    """Return the result of a scorer that never waits; exceptions are values."""
    try:
        return scorer.score_at_once(run)
    except BaseException as error:
        return error


def _ended_early(steps: tuple[StepRecord, ...]) -> StepFailure:
    """Return the failure of a scorer that was cancelled after these steps."""
    failure = StepFailure("the scorer cancelled itself", steps=steps)
    failure.__cause__ = asyncio.CancelledError("the scorer cancelled itself")
    return failure


def _current_task(task: asyncio.Task[None] | None) -> asyncio.Task[Any] | None:
    """Return the task that is running on the loop of this one; None if that loop has ended."""
    return None if task is None else asyncio.current_task(task.get_loop())
