"""What happens to a run once it is whole: the rules decide, the lanes score, the outcomes go out.

Lives on the engine's thread only.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from otel_evals.assembly.build import subruns
from otel_evals.assembly.conversation import conversation_key
from otel_evals.assembly.whole import closed_with
from otel_evals.attachment.attacher import Attacher, Opened
from otel_evals.config import Config, Rule
from otel_evals.deciding import Case, Decider, Pick, chance_of
from otel_evals.engine import Accounts, Job, Lane, Stories
from otel_evals.isolation.pool import START_SECONDS, IsolatedScorer, most_processes
from otel_evals.model import Dropped, Evaluation, Outcome, Run, Sampled, ScoredRun
from otel_evals.sampling.identity import on_record
from otel_evals.scorer import Scorer
from otel_evals.withholding import without_content

if TYPE_CHECKING:
    from otel_evals.assembly.live import Closed
    from otel_evals.store.durable import Durable
    from otel_evals.store.entry import Entry
    from otel_evals.store.replay import Picked

__all__ = ["Judging", "evaluation_id", "rule_names"]

_logger = logging.getLogger(__name__)


def rule_names(rules: Sequence[Rule]) -> dict[str, Rule]:
    """The rules by the name they are counted under: the scorer's id, and the scope unless it is `run`."""
    return {r.scorer.id if r.scope == "run" else f"{r.scorer.id}@{r.scope}": r for r in rules}


def evaluation_id(run: Run, scorer: Scorer) -> str:
    """The same for a scorer of one version on one span or conversation, whenever it is asked."""
    target = "\0".join(conversation_key(run)) if run.turns else f"{run.trace_id}:{run.root_span_id}"
    identity = f"{target}:{scorer.id}:{scorer.version}"
    return sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:32]


@dataclass(slots=True, eq=False)
class _Ticket:
    """A judged span or conversation and what is still to come for it."""

    run: Run
    left: int = 0
    """Evaluations to come, and rules that wait for one of them."""
    cases: dict[str, Case] = field(default_factory=dict)
    """By unit of rules."""
    evaluations: list[Evaluation] = field(default_factory=list)
    entry: Any = None
    """The spooled run it belongs to, where there is a store."""
    revision: int = 1

    @property
    def target(self) -> str:
        return self.run.root_span_id


class Judging:
    """Takes runs to their ends.

    Args:
        config: rules and limits.
        accounts: where every run and outcome is counted.
        stories: where it is remembered by trace.
        attacher: where outcomes are attached.
        deliver: takes scored runs.
        settled: called whenever nothing is pending any more.
        spool: keeps sampled runs until they are scored and delivered.
    """

    def __init__(
        self,
        config: Config,
        accounts: Accounts,
        stories: Stories,
        attacher: Attacher,
        deliver: Callable[[ScoredRun], None],
        settled: Callable[[], None],
        spool: Durable | None = None,
    ) -> None:
        self._config = config
        self._accounts = accounts
        self._stories = stories
        self._attacher = attacher
        self._deliver = deliver
        self._settled = settled
        self._spool = spool
        self._rules = rule_names(config.rules)
        self._isolated: list[IsolatedScorer] = []
        self._lanes = {n: Lane(self._placed(rule), self._begin, self._end) for n, rule in self._rules.items()}
        self._decider = Decider(self._rules, accounts, stories)
        self._scopes = sorted({r.scope for r in config.rules if r.scope != "conversation"}, reverse=True)
        self._ending: str | None = None

    def judge(self, runs: Sequence[Run], closed: Closed) -> set[str]:
        """Ask the rules about the runs of one trace and queue what they picked; returns the judged spans."""
        jobs: list[Job] = []
        for run in runs:
            if run.trace_flags & 1:
                self._accounts.accept()
                jobs += self._jobs(run)
            else:
                self._accounts.ignore("trace_not_sampled")
                self._stories.ignored(run.trace_id, "trace_not_sampled")
        if self._spool is not None:
            self._spool.admit(closed, jobs)
        for job in jobs:
            self._queue(job)
        return {job.ticket.target for job in jobs}

    def judge_conversation(self, run: Run, unit: str, revision: int, lost: str | None = None) -> None:
        """Ask the rules of a unit about a conversation and queue what they picked.

        Args:
            run: stands for the conversation.
            unit: `Rule.unit` of the rules.
            revision: of its evaluations.
            lost: why what they pick cannot be scored and is dropped.
        """
        case, picked = self._decider.open(run, unit)
        ticket = _Ticket(run, len(picked) + len(case.waiting), {unit: case}, revision=revision)
        jobs = [self._job(pick, run, ticket) for pick in picked]
        if self._spool is not None and jobs and lost is None:
            self._spool.admit(closed_with(run.turns), jobs, revision)
        for job in jobs:
            self._queue(job, lost)

    def rule_out(self, run: Run, unit: str) -> None:
        """Count that no rule of a unit could pick a conversation, of which little was kept therefore."""
        self._decider.rule_out(run, unit)

    def resume(self, picked: Sequence[Picked], entry: Entry) -> int:
        """Score what the spool kept; returns the number of judged spans."""
        jobs: list[Job] = []
        tickets: dict[str, _Ticket] = {}
        for each in picked:
            rule, run = self._rules[each.name], each.run
            ticket = tickets.setdefault(run.root_span_id, _Ticket(run, entry=entry))
            ticket.left += 1
            case = ticket.cases.setdefault(rule.unit, Case(run))
            case.picked[rule.scorer.id] = chance_of(each.sampled, run)
            self._accounts.resume(each.name)
            self._stories.sampled(run, each.name, case.picked[rule.scorer.id])
            jobs.append(Job(each.name, rule, run, each.sampled, ticket, each.place))
        for ticket in tickets.values():
            ticket.left += sum(self._decider.reopen(case, unit) for unit, case in ticket.cases.items())
        for job in jobs:
            self._queue(job)
        return len(tickets)

    def withdraw(self, job: Job, reason: str) -> None:
        """End a job without an outcome: the spool keeps it for later."""
        ticket: _Ticket = job.ticket
        self._accounts.spool(job.name)
        self._stories.spooled(job.run, job.name, reason)
        if job.opened is not None:
            self._attacher.abandon(job.opened, reason)
        ticket.left -= self._decider.give_up(ticket.cases[job.rule.unit], job.rule.scorer.id)
        self._leave(ticket)

    @property
    def waiting(self) -> int:
        """Jobs that have no slot yet."""
        return sum(lane.waiting for lane in self._lanes.values())

    async def prepare(self) -> None:
        """Have every scorer load what it needs, all at once."""
        await asyncio.gather(*(lane.prepare() for lane in self._lanes.values()))

    def abort(self, reason: str) -> None:
        """Drop everything that has not ended."""
        self._ending = reason
        for lane in self._lanes.values():
            lane.abort(Dropped(reason=reason))

    def close(self) -> None:
        """End the scoring processes; when the engine's thread no longer runs."""
        for scorer in self._isolated:
            scorer.close()

    def disown(self) -> None:
        """In a forked copy of this process: the scoring processes are its parent's."""
        for scorer in self._isolated:
            scorer.disown()

    def _placed(self, rule: Rule) -> Rule:
        """The rule as its lane sees it: a scorer with processes of its own stands in for an isolated one."""
        if rule.isolation == "thread":
            return rule
        isolated = IsolatedScorer(rule.scorer, rule.timeout)
        self._isolated.append(isolated)
        slots = min(rule.concurrency, most_processes())
        return replace(
            rule, scorer=isolated, isolation="thread", concurrency=slots, timeout=rule.timeout + START_SECONDS
        )

    def _jobs(self, run: Run) -> list[Job]:
        """The jobs the rules make of a run: one per rule, or one for each agent in it."""
        jobs = []
        tickets: dict[str, _Ticket] = {}
        for scope in self._scopes:
            for part in [run] if scope == "run" else subruns(run):
                case, picked = self._decider.open(part, scope)
                if picked:
                    ticket = tickets.setdefault(part.root_span_id, _Ticket(part))
                    ticket.cases[scope] = case
                    ticket.left += len(picked) + len(case.waiting)
                    jobs += [self._job(pick, part, ticket) for pick in picked]
        return jobs

    def _job(self, pick: Pick, run: Run, ticket: _Ticket) -> Job:
        sampled = Sampled(on_record(pick.chance, run), str(pick.rule.sample))
        return Job(pick.name, pick.rule, run, sampled, ticket)

    def _follow(self, job: Job, outcome: Outcome) -> None:
        """Have the rules decide that waited for this outcome."""
        ticket: _Ticket = job.ticket
        case = ticket.cases[job.rule.unit]
        if case.waiting:
            waited = len(case.waiting)
            picked = self._decider.settle(case, job.rule.scorer.id, outcome)
            ticket.left -= waited - len(case.waiting) - len(picked)
            for pick in picked:
                following = self._job(pick, job.run, ticket)
                if self._spool is not None and ticket.entry is not None:
                    self._spool.add(following)
                self._queue(following)

    @property
    def room(self) -> int:
        """How many more jobs may wait."""
        return max(0, self._config.queue_size - self.waiting)

    def _queue(self, job: Job, lost: str | None = None) -> None:
        reason = lost or self._ending
        if reason is None and self.room:
            self._lanes[job.name].offer(job)
        else:
            job.ended = True
            self._end(job, Dropped(reason=reason or "queue_full"))

    def _begin(self, job: Job) -> None:
        opened = self._attacher.open(job.run, job.ticket.target, job.rule.scorer.id, job.started)
        job.opened, job.context = opened, opened.context
        self._stories.begun(job.run, job.name)

    def _end(self, job: Job, outcome: Outcome) -> None:
        if self._spool is None or not self._spool.takes_back(job, outcome):
            self.finish(job, outcome)

    def finish(self, job: Job, outcome: Outcome) -> None:
        """End a job with an outcome."""
        evaluation = self._evaluation(job, outcome)
        self._accounts.settle(job.name, evaluation)
        self._stories.ended(job.name, evaluation)
        ticket: _Ticket = job.ticket
        opened: Opened | None = job.opened
        try:
            self._attacher.attach(job.run, evaluation, opened)
        except Exception:
            _logger.exception("an evaluation of %s could not be attached", evaluation.scorer_id)
        ticket.evaluations.append(evaluation)
        self._follow(job, outcome)
        self._leave(ticket)

    def _leave(self, ticket: _Ticket) -> None:
        """One evaluation less to come for a judged span; after the last, what came goes out."""
        ticket.left -= 1
        if ticket.left == 0:
            if not ticket.run.turns:  # a conversation's spans are not held for it
                self._attacher.release(ticket.run.trace_id, ticket.target)
            scored = ScoredRun(run=ticket.run, evaluations=tuple(ticket.evaluations))
            if self._spool is None or ticket.entry is None:
                self._deliver(scored)
            elif scored.evaluations:
                self._spool.deliver(ticket.entry, ticket.target, scored)
            else:
                self._spool.over(ticket.entry)
        if self._accounts.pending == 0:
            self._settled()

    def _evaluation(self, job: Job, outcome: Outcome) -> Evaluation:
        scorer, run, target = job.rule.scorer, job.run, job.ticket.target
        entry: Entry | None = job.ticket.entry
        return Evaluation(
            evaluation_id=evaluation_id(run, scorer),
            scorer_id=scorer.id,
            scorer_version=scorer.version,
            direction=scorer.direction,
            trace_id=run.trace_id,
            span_id=target,
            outcome=outcome if self._config.capture_content else without_content(outcome),
            sampled=job.sampled,
            duration=time.monotonic() - job.began if job.began else 0.0,
            attempts=max(1, job.attempts),
            revision=job.ticket.revision if entry is None else entry.status.revision,
            time=time.time_ns(),
            conversation_id=run.conversation_id if run.turns else None,
        )
