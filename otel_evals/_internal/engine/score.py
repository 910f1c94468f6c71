"""From a run to its delivered scores: rules decide, scorers run, outcomes are attached and delivered.

`RunScorer.score` begins a run, `_evaluate` is one evaluation, `_end` and `_deliver` are its way out.
Used on the engine's thread only, unless a docstring says otherwise.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.attach.attacher import Attacher, Opened
from otel_evals._internal.attach.content_removal import without_content
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.engine.check import Check, CheckedRuns
from otel_evals._internal.engine.conversations import JoinedConversation
from otel_evals._internal.engine.pending import Pending, Target, settled
from otel_evals._internal.engine.rule_queue import RuleQueue, Rules, score_at_once
from otel_evals._internal.model import (
    Dropped,
    Evaluation,
    Loss,
    NotScored,
    OperationKind,
    Outcome,
    Run,
    Score,
)
from otel_evals._internal.model.records import DERIVATION
from otel_evals._internal.model.runs import size_of_run
from otel_evals._internal.read.runs import subruns
from otel_evals._internal.redaction.redactor import redacted
from otel_evals._internal.sampling.decide import CHECKED, Decision, RunDecisions

_SPANS_DROPPED = attrgetter("span.spans_dropped")

Known = Callable[[str, Run], tuple[int, Outcome | None]]
"""Returns the outcome of an evaluation, by its id, that was made of a run before, and its revision; without
an outcome, the least revision of the evaluation to make."""


class RunScorer:
    """Scores runs by the current rules.

    Args:
        config: rules and limits.
        ledger: counts runs and evaluations.
        attacher: attaches outcomes to the traces.
        deliver: called once with each target whose evaluations have all ended; must not raise.
        known: returns evaluations that were made before.
        draw: returns random numbers in [0, 1), for the jitter of retries.
    """

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        attacher: Attacher,
        deliver: Callable[[Target], object],
        known: Known | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._ledger, self._attacher = ledger, attacher
        self._deliver, self._known, self._draw = deliver, known, draw
        self._capture_content = config.capture_content
        self.rules = Rules(config, draw)
        self.earlier: list[Rules] = []
        """Rules of earlier configurations with evaluations that have not ended."""
        self.open: set[Target] = set()
        """Targets with evaluations without an outcome."""
        self._bytes, self._max_bytes = 0, config.limits.max_bytes
        """Of the runs of these targets."""
        self._all_ended = asyncio.Event()
        self._checked = CheckedRuns()

    @property
    def capacity(self) -> int:
        """Number of further runs that can wait to be scored. May be read from any thread.

        In bytes, they count as twice the mean of those that wait, because their sizes are not known yet.
        """
        slots, size, left = self.rules.capacity, self._bytes, max(0, self._max_bytes - self._bytes)
        return min(slots, left * len(self.open) // (2 * size)) if size else slots

    @property
    def all_rules(self) -> list[Rules]:
        return [*self.earlier, self.rules]

    def use(self, config: Config) -> None:
        """Switch to other rules; runs end under the rules that sampled them."""
        self.earlier = [rules for rules in self.all_rules if not rules.idle]
        self.rules = Rules(config, self._draw)

    def running(self) -> set[tuple[str, str]]:
        """Rule and judged span of running scorers. May be called from any thread."""
        queues = [queue for rules in self.all_rules for queue in tuple(rules.queues.values())]
        return {(queue.name, pending.target.span_id) for queue in queues for pending in tuple(queue.running)}

    async def settled(self, seconds: float) -> bool:
        """Wait until every target is delivered; returns False after a timeout."""
        until = time.monotonic() + seconds
        while self.open:
            self._all_ended.clear()
            try:
                await asyncio.wait_for(self._all_ended.wait(), max(0.0, until - time.monotonic()))
            except TimeoutError:
                return False
        return True

    def abort(self, reason: str) -> None:
        """Drop all evaluations without an outcome, and all that follow."""
        for rules in self.all_rules:
            rules.abort(reason)

    # --- from a run to its evaluations ---

    def decide(self, run: Run) -> dict[Target, list[Pending]]:
        """Ask the rules about a run; returns the sampled evaluations by what they judge, for `start`."""
        rules = self.rules
        by_span: dict[str, tuple[Target, list[Pending]]] = {}
        accepted: list[tuple[Run, list[Decision]]] = []
        checked = self._checked.close(run)
        if checked is not None:
            for evaluation in checked.newest.values():
                self._attacher.show(run, evaluation)
        for scope in rules.scopes:
            early = checked.decisions if checked is not None and scope == "run" else None
            for part in [run] if scope == "run" else self._agents(run):
                decisions, decided = rules.decider.decide(part, scope, early)
                accepted.append((part, decided))
                for decision in decided:
                    if decision.status != "sampled":
                        continue
                    if part.root_span_id not in by_span:  # the root of a run may be an agent, too
                        by_span[part.root_span_id] = Target(part), []
                    target, pending = by_span[part.root_span_id]
                    pending.append(Pending(rules.queues[decision.rule.name], target, decisions))
        self._ledger.accepted(run, accepted)
        if checked is not None and checked.open:
            target, _ = by_span.setdefault(run.root_span_id, (Target(run), []))
            target.open += checked.open
            checked.closing = target
        return dict(by_span.values())

    def decide_conversation(self, joined: JoinedConversation) -> dict[Target, list[Pending]]:
        """Ask the rules about a conversation that is due; returns the sampled evaluations, for `start`."""
        rules, run, due = self.rules, joined.run, joined.due
        if due.conversation.ruled_out:
            self._ledger.decided(run, rules.decider.rule_out(due.group))
            return {}
        decisions, decided = rules.decider.decide(run, due.group)
        self._ledger.decided(run, decided)
        target = Target(run, due.conversation.revisions[due.group], held=False)
        sampled = _sampled(rules, target, decisions, decided)
        return {target: sampled} if sampled else {}

    def start(self, sampled: dict[Target, list[Pending]], lost: str | None = None) -> None:
        """Start sampled evaluations, or drop them for a reason. Some have ended when this returns."""
        dropped = None if lost is None else Dropped(reason=lost)
        for target, pending in sampled.items():
            self._start(self.rules, target, pending, dropped)

    def check(self, check: Check, run: Run) -> bool:
        """Evaluate an unfinished run; returns False if a rule has the check's scorer in another version."""
        queue = self.rules.queues.get(check.rule.name) or self._add(check.rule)
        if queue.facts.version != check.rule.facts.version:
            return False
        rule = check.rule = queue.rule
        checked = self._checked.of(run)
        number = checked.begin(run, rule)
        if number == 1:
            self._ledger.decided(run, [Decision(rule, "sampled", chance=CHECKED, asked=False)])
        else:
            self._ledger.resumed(run, rule.name, CHECKED)
        target = Target(run, number, held=False)
        pending = Pending(queue, target, checked.decisions)
        pending.check = check, checked
        self._start(self.rules, target, [pending])
        return True

    def _agents(self, run: Run) -> Sequence[Run]:
        parts = subruns(run)
        if deeper := len([*run.of_kind(OperationKind.AGENT)]) - len(parts):
            self._ledger.lost(Loss("span", "agent_too_deep", run.trace_id, deeper))
        return parts

    def _add(self, rule: Rule) -> RuleQueue:
        """Add a rule for a scorer that only checks use."""
        self._ledger.add_rules([rule.name])
        self._attacher.learn(rule.name, rule.facts.scale)
        queue = self.rules.add(rule)
        self._preparing = asyncio.ensure_future(queue.prepare())
        return queue

    def _start(
        self, rules: Rules, target: Target, pending: Sequence[Pending], lost: Dropped | None = None
    ) -> None:
        if target.size == 0:
            target.size = size_of_run(target.run)
            if lost is None and self.open and self._bytes + target.size > self._max_bytes:
                lost = Dropped(reason="queue_full")
            self._bytes += target.size
        self.open.add(target)
        target.open += len(pending)  # all of them first: the last to end delivers the target
        for each in pending:
            each.drive(self._evaluate(rules, each, lost))

    # --- one evaluation ---

    async def _evaluate(self, rules: Rules, pending: Pending, outcome: Outcome | None) -> None:
        queue: RuleQueue = pending.queue
        if outcome is None and self._known is not None:
            revision, outcome = self._known(pending.evaluation_id, pending.run)
            pending.revision = max(pending.revision, revision) if outcome is None else revision
        if outcome is None and lacks_spans(pending.run):
            outcome = NotScored(reason="run_truncated")
        while outcome is None:
            if not queue.free:
                outcome = queue.join(pending) or await settled()
            if outcome is None and (queue.abandoned or queue.threads.calls):
                outcome = queue.stuck()
            if outcome is not None:
                break
            opened = self._open(pending)
            if queue.at_once:
                result = opened.context.run(score_at_once, queue.scorer, pending.run)
            else:
                queue.start(pending, opened.context)
                result = await settled()
                queue.leave(pending)
            outcome = queue.outcome_of(pending, result)
            if outcome is None:
                queue.pause(pending)
                outcome = await settled()
        self._end(rules, pending, outcome)
        if queue.waiting:
            queue.fill()

    def _open(self, pending: Pending) -> Opened:
        """Open an attempt: its evaluation span, and the context of its scorer."""
        if pending.opened is not None:
            self._attacher.retry(pending.opened, pending.paused)
        queue, run = pending.queue, pending.run
        pending.attempts += 1
        pending.started, pending.began, pending.paused = time.time_ns(), time.monotonic(), None
        span_id = pending.target.span_id if pending.check is None else pending.check[0].span_id(run)
        pending.opened = self._attacher.open(
            run, span_id, queue.name, queue.facts.id, pending.started, queue.scorer_context.copy()
        )
        return pending.opened

    def _end(self, rules: Rules, pending: Pending, outcome: Outcome) -> None:
        """Count and attach an outcome and start what follows it, in this order; then close its target.

        A cascade starts before its target could be delivered without it. It follows this outcome, not all
        outcomes of the run, or it would wait for the slowest rule.
        """
        target, rule, decisions = pending.target, pending.queue.rule, pending.decisions
        if is_unreadable(pending.run) and not isinstance(outcome, Dropped):
            outcome = NotScored(reason="unreadable")  # the scorer saw only a part
        evaluation, closing = self._conclude(pending, outcome), None
        if pending.check is not None:
            check, checked = pending.check
            evaluation, closing = checked.end(check, evaluation), checked.closing
        self._ledger.ended(rule.name, evaluation, pending.error)
        self._attacher.attach(pending.run, evaluation, pending.opened)
        pending.error = pending.opened = None
        target.evaluations += (evaluation,)
        if decisions.waiting:
            decided = rules.decider.follow(decisions, rule.scorer_id, outcome)
            self._ledger.decided(pending.run, decided)
            follows = closing or target
            self._start(rules, follows, _sampled(rules, follows, decisions, decided))
        self._leave(target)
        if closing is not None:  # the span of a closed run was held for this check
            self._leave(closing)

    def _leave(self, target: Target) -> None:
        """Count the end of an evaluation of a target; the last one closes it."""
        target.open -= 1
        if not target.open:
            self._close(target)

    def _close(self, target: Target) -> None:
        """Release the span of a target without open evaluations, and deliver it."""
        if target.held and self._attacher.scores is not None:
            self._attacher.scores.release(target.trace_id, target.span_id)
        self._deliver(target)
        self.open.discard(target)
        self._bytes -= target.size
        if not self.open:
            self._all_ended.set()

    def _conclude(self, pending: Pending, outcome: Outcome) -> Evaluation:
        """Return the evaluation of an outcome, without content or secrets that must not leave the process."""
        facts, target, rule = pending.queue.facts, pending.target, pending.queue.rule
        return Evaluation(
            evaluation_id=pending.evaluation_id,
            scorer_id=facts.id,
            scorer_version=facts.version,
            direction=facts.direction,
            scale=facts.scale,
            trace_id=target.trace_id,
            span_id=target.span_id,
            outcome=redacted(outcome) if self._capture_content else without_content(outcome),
            sampled=pending.sampled,
            duration=time.monotonic() - pending.began if pending.began else 0.0,
            attempts=max(1, pending.attempts),
            revision=pending.revision,
            time=time.time_ns(),
            rule=rule.name,
            review=_review(rule, outcome),
            conversation_id=target.conversation_id,
        )


def _sampled(
    rules: Rules, target: Target, decisions: RunDecisions, decided: Iterable[Decision]
) -> list[Pending]:
    """Return the evaluations that were sampled."""
    queues = rules.queues
    return [Pending(queues[d.rule.name], target, decisions) for d in decided if d.status == "sampled"]


def lacks_spans(run: Run) -> bool:
    """Return True if a limit removed spans from a run."""
    return any(map(_SPANS_DROPPED, run.operations))


def is_unreadable(run: Run) -> bool:
    """Return True if reading the content of a run has failed."""
    for operation in run.operations:
        derivation = operation.__dict__.get(DERIVATION)
        if derivation is not None and derivation.failed:
            return True
    return False


def _review(rule: Rule, outcome: Outcome) -> str | None:
    """Return the condition of a rule that sends a score to review."""
    sent = rule.reviews is not None and isinstance(outcome, Score) and rule.reviews(outcome.value)
    return rule.review if sent else None
