"""From a run to its scored target: rules decide, queues evaluate, outcomes are attached."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter

from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.attach.content_removal import without_content
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.engine.attempt import Known, Target
from otel_evals._internal.engine.check import Check, CheckedRuns
from otel_evals._internal.engine.conversations import DueConversation
from otel_evals._internal.engine.rule_queue import Pending, RuleQueue
from otel_evals._internal.engine.rules import Rules
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
from otel_evals._internal.model.runs import SIZE, size_of_run
from otel_evals._internal.read.runs import evaluation_id, subruns
from otel_evals._internal.redaction.redactor import redacted
from otel_evals._internal.sampling.decide import CHECKED, Decision, RunDecisions

Sampled = dict[Target, list[Pending]]
"""The sampled evaluations by what they judge."""
_LOOK_SECONDS = 0.002  # polled: an event would cost every run a call
_PLAIN_LABELS = (None, "true", "false")
_SPANS_DROPPED = attrgetter("span.spans_dropped")


class RunScorer:
    """Scores runs by the current rules.

    `deliver`, if anything takes scores, is called once with each target whose evaluations have all ended, and
    must not raise; `known` returns evaluations that were made before.
    """

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        attacher: Attacher,
        deliver: Callable[[Target], object] | None = None,
        known: Known | None = None,
    ) -> None:
        self._ledger, self._attacher = ledger, attacher
        self._deliver, self._known = deliver, known
        self._capture_content = config.capture_content
        self.rules = Rules(config, attacher)
        self._earlier: list[Rules] = []
        """Rules of earlier configurations with evaluations that have not ended."""
        self.open: set[Target] = set()
        """Targets with evaluations without an outcome."""
        self._bytes, self._max_bytes = 0, config.limits.max_bytes
        """Of the runs of these targets."""
        self._checked = CheckedRuns()

    @property
    def capacity(self) -> int:
        """Number of further runs that can wait to be scored. May be read from any thread.

        In bytes, they count as twice the mean of those that wait, because their sizes are not known yet.
        """
        slots, size, left = self.rules.capacity, self._bytes, max(0, self._max_bytes - self._bytes)
        return min(slots, left * len(self.open) // (2 * size)) if size else slots

    def queues(self) -> list[RuleQueue]:
        """Return the queues of all rules with open evaluations. May be called from any thread."""
        return [queue for rules in (*self._earlier, self.rules) for queue in tuple(rules.queues.values())]

    def use(self, config: Config) -> None:
        """Switch to other rules; runs end under the rules that sampled them."""
        every = (*self._earlier, self.rules)
        self._earlier = [rules for rules in every if not all(q.idle for q in rules.queues.values())]
        self.rules = Rules(config, self._attacher)

    async def settled(self, seconds: float) -> bool:
        """Wait until every target that is open now is delivered; returns False after a timeout."""
        targets, until = set(self.open), time.monotonic() + seconds
        while not targets.isdisjoint(self.open) and time.monotonic() < until:  # noqa: ASYNC110  # see above
            await asyncio.sleep(_LOOK_SECONDS)
        return targets.isdisjoint(self.open)

    def score(self, run: Run, keep: Callable[[list[Target]], object] | None = None) -> list[Target]:
        """Ask the rules about a run, and start what they sample; returns what is judged.

        `keep` is called with that before an evaluation starts: one may crash the process.
        """
        sampled = self._decide(run)
        judged = list(sampled)
        if keep is not None:
            keep(judged)
        self.start(sampled)
        return judged

    def _decide(self, run: Run) -> Sampled:
        """Return the sampled evaluations by what they judge."""
        rules = self.rules
        targets: dict[str, Target] = {}
        sampled: Sampled = {}
        accepted: list[tuple[Run, list[Decision]]] = []
        checked = self._checked.close(run) if self._checked.runs else None
        for evaluation in checked.newest.values() if checked is not None else ():
            self._attacher.show(run, evaluation)
        for scope in rules.scopes:
            early = checked.decisions if checked is not None and scope == "run" else None
            for part in [run] if scope == "run" else self._agents(run):
                decisions, decided = rules.decider.decide(part, scope, early)
                accepted.append((part, decided))
                # The root of a run may be an agent, too.
                target = targets.get(part.root_span_id) or Target(part)
                pending = [*_sampled(rules, target, decisions, decided)]
                if pending:
                    targets[part.root_span_id] = target
                    sampled.setdefault(target, []).extend(pending)
        self._ledger.accepted(run, accepted)
        if checked is not None and checked.open:
            target = targets.get(run.root_span_id) or Target(run)
            sampled.setdefault(target, [])  # its span is held until these checks have ended
            target.open += checked.open
            checked.closing = target
        return sampled

    def decide_conversation(self, due: DueConversation) -> Sampled:
        """Ask the rules about a conversation that is due; returns the sampled evaluations, for `start`."""
        rules, run = self.rules, due.run
        if due.conversation.ruled_out:
            self._ledger.decided(run, rules.decider.rule_out(due.group))
            return {}
        decisions, decided = rules.decider.decide(run, due.group)
        self._ledger.decided(run, decided)
        target = Target(run, due.conversation.revisions[due.group], held=False)
        sampled = [*_sampled(rules, target, decisions, decided)]
        return {target: sampled} if sampled else {}

    def check(self, check: Check, run: Run) -> bool:
        """Evaluate an unfinished run; returns False if a rule has the check's scorer in another version."""
        queue = self.rules.queues.get(check.rule.name) or self._add(check.rule)
        if queue.facts.version != check.rule.facts.version:
            return False
        rule = check.rule = queue.rule
        checked = self._checked.of(run)
        number = checked.begin(run, rule)
        decision = Decision(rule, "sampled", chance=CHECKED)
        if number == 1:
            self._ledger.decided(run, [decision])
        else:
            self._ledger.resumed(run, rule.name, CHECKED)
        target = Target(run, number, held=False)
        (pending,) = _sampled(self.rules, target, checked.decisions, [decision])
        pending.check = check, checked
        self._start(self.rules, target, [pending])
        return True

    def _agents(self, run: Run) -> Sequence[Run]:
        parts = subruns(run)
        deeper = len([*run.of_kind(OperationKind.AGENT)]) - len(parts)
        if deeper:
            self._ledger.lost(Loss("span", "agent_too_deep", run.trace_id, deeper))
        return parts

    def _add(self, rule: Rule) -> RuleQueue:
        """Add a rule for a scorer that only checks use."""
        self._ledger.add_rules([rule.name])
        if self._attacher.metrics is not None:
            self._attacher.metrics.estimates.scales[rule.name] = rule.facts.scale
        queue = self.rules.add(rule)
        self._preparing = asyncio.ensure_future(queue.prepare())
        return queue

    def start(self, sampled: Sampled, lost: str | None = None) -> None:
        """Start sampled evaluations, or drop them for a reason."""
        for target, pending in sampled.items():
            self._start(self.rules, target, pending, None if lost is None else Dropped(reason=lost))

    def _start(
        self, rules: Rules, target: Target, pending: Sequence[Pending], outcome: Outcome | None = None
    ) -> None:
        if target not in self.open:
            target.size = target.run.__dict__.get(SIZE) or size_of_run(target.run)
            # While nothing else is open, a run is scored even if it alone exceeds the bound.
            if outcome is None and self.open and self._bytes + target.size > self._max_bytes:
                outcome = Dropped(reason="queue_full")
            self._bytes += target.size
            self.open.add(target)
        target.open += len(pending)  # all of them first: the last to end delivers the target
        ended = partial(self._end, rules)
        for each in pending:
            known = outcome or self._known_outcome(each)
            if known is None:
                each.start(ended)
            else:
                ended(each, known)

    def _known_outcome(self, pending: Pending) -> Outcome | None:
        """Return an outcome that needs no scorer."""
        outcome: Outcome | None = None
        if self._known is not None:
            revision, outcome = self._known(pending.evaluation_id, pending.run)
            pending.revision = max(pending.revision, revision) if outcome is None else revision
        return NotScored(reason="run_truncated") if outcome is None and lacks_spans(pending.run) else outcome

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
            self._start(rules, follows, [*_sampled(rules, follows, decisions, decided)])
        self._leave(target)
        if closing is not None:  # the span of a closed run was held for this check
            self._leave(closing)

    def _leave(self, target: Target) -> None:
        """Count an end; the last one releases the target's span and delivers it."""
        target.open -= 1
        if target.open:
            return
        if target.held and self._attacher.scores is not None:
            self._attacher.scores.release(target.run.trace_id, target.run.root_span_id)
        if self._deliver is not None:
            self._deliver(target)
        if target in self.open:
            self.open.remove(target)
            self._bytes -= target.size

    def _conclude(self, pending: Pending, outcome: Outcome) -> Evaluation:
        """Return the evaluation of an outcome, without content or secrets that must not leave the process."""
        facts, run, rule = pending.queue.facts, pending.target.run, pending.queue.rule
        reviewed = rule.reviews is not None and isinstance(outcome, Score) and rule.reviews(outcome.value)
        if not _is_bare(outcome):
            outcome = redacted(outcome if self._capture_content else without_content(outcome))
        return Evaluation(
            evaluation_id=pending.evaluation_id,
            scorer_id=facts.id,
            scorer_version=facts.version,
            direction=facts.direction,
            scale=facts.scale,
            trace_id=run.trace_id,
            span_id=run.root_span_id,
            outcome=outcome,
            sampled=pending.sampled,
            duration=time.monotonic() - pending.began if pending.began else 0.0,
            attempts=max(1, pending.attempts),
            revision=pending.revision,
            time=time.time_ns(),
            rule=rule.name,
            review=rule.review if reviewed else None,
            conversation_id=run.conversation_id if run.turns else None,
        )


def _sampled(
    rules: Rules, target: Target, decisions: RunDecisions, decided: Iterable[Decision]
) -> Iterator[Pending]:
    """Yield the evaluations that were sampled."""
    run = decisions.run
    for decision in decided:
        if decision.status == "sampled":
            rule, queue = decision.rule, rules.queues[decision.rule.name]
            sampled = decisions.on_record[rule.scorer_id]
            id = evaluation_id(run, rule.evaluation_key, queue.facts.version)
            yield Pending(queue, target, run, decisions, sampled, id, target.revision)


def _is_bare(outcome: Outcome) -> bool:
    """Return True if a score contains no text to redact, the usual case."""
    return (
        isinstance(outcome, Score)
        and not outcome.explanation
        and not outcome.steps
        and outcome.label in _PLAIN_LABELS
    )


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
