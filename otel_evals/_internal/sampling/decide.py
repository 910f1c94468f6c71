"""Decides which rules sample a run: at once, or after another rule's outcome.

Deciding has no effect except on `RunDecisions` and on the count of judges' echoes. A run waits for a
cascade's decision only until the other scorer ends, which timeouts, attempts and the bounded queue limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal

import msgspec

from otel_evals._internal.model import Outcome, Run, Sampled
from otel_evals._internal.sampling.algebra import Chance, Earlier, inclusion_probability
from otel_evals._internal.sampling.conditions import cascade_order
from otel_evals._internal.sampling.consistent import is_sampled, randomness_source
from otel_evals._internal.trust.marks import ECHOES, FENCE, has_own_fence
from otel_evals._internal.util.plain import type_name

CHECKED: Final = Chance(1.0)
"""The chance of a check: it evaluates every run for which the application calls it."""
_MAX_REMEMBERED = 1_000


DecidingRule = Any
"""A rule of the configuration: `name`, `scorer_id`, `when`, `sample` and `sampling`; rules of one
`group` are asked together."""


class Decision(msgspec.Struct, frozen=True):
    rule: DecidingRule
    status: Literal["sampled", "not_sampled", "waiting"]
    """`waiting`: for the outcome of a rule that it follows."""
    reason: str = ""
    """Why it does not sample the run."""
    chance: Chance | None = None
    """None if it was not computed."""
    error: BaseException | None = None
    """The exception of the rule's `when` or `sample`."""


class RunDecisions(msgspec.Struct, eq=False, gc=False):
    """The decisions so far of the rules that are asked together about a run.

    The garbage collector skips it, so it must not refer to rules: a cycle through a scorer would never end.
    """

    run: Run
    waiting: dict[str, str] = {}  # a struct copies its defaults
    """Scorer ids of the rules that wait for the outcome of another, by the rule's name."""
    sampled: dict[str, Chance] = {}
    """By scorer id."""
    on_record: dict[str, Sampled] = {}
    """By scorer id: the sampling probability recorded with the score."""
    outcomes: dict[str, Earlier] = {}
    """By scorer id, as far as they are known."""

    def undecided(self) -> set[str]:
        """Return ids of the scorers without an outcome."""
        return (self.sampled.keys() - self.outcomes.keys()) | set(self.waiting.values())


class Decider:
    """Asks the rules, given in any order."""

    def __init__(self, rules: Iterable[DecidingRule]) -> None:
        listed = list(rules)
        # In this order every rule finds the decisions that it follows already made.
        order = cascade_order([(rule.scorer_id, rule.group, rule.sampling) for rule in listed])
        self._rules: dict[str, list[DecidingRule]] = {}
        self._by_name = {rule.name: rule for rule in listed}
        for index in order:
            self._rules.setdefault(listed[index].group, []).append(listed[index])
        ECHOES.reset()
        self._words = {rule.name: rule.sampling.words for rule in listed}
        self._sampled: dict[tuple[str, Chance], Sampled] = {}

    def decide(
        self, run: Run, group: str, early: RunDecisions | None = None
    ) -> tuple[RunDecisions, list[Decision]]:
        """Ask the rules about a run, except those with an early decision."""
        decisions = early or RunDecisions(run)
        # Asked early, a rule has counted the run in its limit: asking it again would count it twice.
        rules = [r for r in self._rules.get(group, ()) if r.scorer_id not in decisions.sampled]
        if rules and _is_judge_question(run):
            return decisions, [Decision(rule, "not_sampled", "judge_question") for rule in rules]
        if ECHOES.calls:
            ECHOES.seen(run)
        return decisions, [self._ask(decisions, rule) for rule in rules]

    def rule_out(self, group: str) -> list[Decision]:
        """Return the decisions about a run whose randomness is below the ceilings of all these rules."""
        return [
            Decision(rule, "not_sampled", "sampled_out", Chance(rule.sampling.ceiling))
            for rule in self._rules.get(group, ())
        ]

    def sampled(self, decision: Decision, run: Run) -> Sampled:
        """Return the probability that is recorded with the score of a sampled run."""
        name, chance = decision.rule.name, decision.chance or Chance(1.0, known=False)
        # The probability depends on the run, so the record cannot be shared.
        if run.trace_state or run.turns:
            return Sampled(inclusion_probability(chance, run), self._words[name])
        known = self._sampled.get((name, chance))  # most runs of a rule share one record
        if known is None:
            # Rate limits give every run another chance: forgetting all is cheaper than an order of use.
            if len(self._sampled) >= _MAX_REMEMBERED:
                self._sampled.clear()
            known = Sampled(inclusion_probability(chance, run), self._words[name])
            self._sampled[name, chance] = known
        return known

    def follow(self, decisions: RunDecisions, scorer_id: str, outcome: Outcome) -> list[Decision]:
        """Return the decisions of the rules that waited for an outcome."""
        decisions.outcomes[scorer_id] = Earlier(decisions.sampled[scorer_id], outcome)
        # Emptied first: a rule that waits for yet another outcome puts itself back.
        waiting, decisions.waiting = decisions.waiting, {}
        return [self._ask(decisions, self._by_name[name], applies=True) for name in waiting]

    def _ask(self, decisions: RunDecisions, rule: DecidingRule, *, applies: bool = False) -> Decision:
        try:
            if not applies and rule.when is not None and not rule.when(decisions.run):
                return Decision(rule, "not_sampled", "not_applicable")
            decision = _decide(decisions, rule)
        except BaseException as error:  # from custom code
            return Decision(rule, "not_sampled", "predicate_failed", error=error)
        if decision.status == "sampled":
            decisions.on_record[rule.scorer_id] = self.sampled(decision, decisions.run)
        return decision


def _decide(decisions: RunDecisions, rule: DecidingRule) -> Decision:
    run, facts = decisions.run, rule.sampling
    if facts.follows and not facts.follows.isdisjoint(decisions.undecided()):
        decisions.waiting[rule.name] = rule.scorer_id
        return Decision(rule, "waiting")
    chance: Chance = facts.constant or rule.sample.chance(run, decisions.outcomes)
    if type(chance) is not Chance or type(chance.why) is not str:
        raise TypeError(f"a sampler must return a Chance, not a {type_name(chance)}")
    if not 0.0 <= chance.probability <= 1.0:
        raise ValueError(f"a probability must lie within 0..1, not {chance.probability}")
    # With a tracestate, even probability one may be below the head sampler's threshold.
    certain = chance.probability >= 1.0 and not run.trace_state
    if not certain and not is_sampled(chance.probability, *randomness_source(run)):
        reason = chance.why if chance.probability <= 0 and chance.why else "sampled_out"
        return Decision(rule, "not_sampled", reason, chance)
    if not chance.known and chance.part is not None and is_sampled(chance.part, *randomness_source(run)):
        # Estimates leave out runs that would not have been sampled without the predicate.
        chance = Chance(chance.part)
    on_record = chance if chance.known else Chance(chance.probability, known=False)
    decisions.sampled[rule.scorer_id] = on_record
    return Decision(rule, "sampled", chance=chance)


def _is_judge_question(run: Run) -> bool:
    """Return True if a judge of this deployment asked the run's question, as its keyed fence proves."""
    may_have_fence = not run.operations
    for operation in run.operations:  # reading the messages of every run would cost as much as all the rest
        span = operation.span
        if span.events or span.logs:
            may_have_fence = True
        for value in span.attributes.values():
            if FENCE in (value if type(value) is str else str(value)):
                may_have_fence = True
    if not may_have_fence:
        return False
    return has_own_fence(run.input or "") or has_own_fence(run.system_instructions or "")
