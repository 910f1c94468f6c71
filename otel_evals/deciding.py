"""Which rules pick a run, and when that is known: at once, or after another rule's outcome.

Lives on the engine's thread only. A run waits for a cascade's decision only as long as the scorer it follows
takes, which timeouts, attempts and the bounded queue limit.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from otel_evals.config import Rule
from otel_evals.engine import Accounts, Stories
from otel_evals.model import Outcome, Run, Sampled
from otel_evals.sampling import Chance, Earlier, in_order, picks, recorded_probability
from otel_evals.sampling.identity import drawn_from

__all__ = ["Case", "Decider", "Pick", "chance_of"]

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Pick:
    """A rule that samples a run."""

    name: str
    rule: Rule
    chance: Chance


@dataclass(slots=True, eq=False)
class Case:
    """One run, one agent's part of it or one conversation, before the rules of one unit."""

    run: Run
    waiting: list[tuple[str, Rule]] = field(default_factory=list)
    """Rules that wait for another's outcome."""
    picked: dict[str, Chance] = field(default_factory=dict)
    """By scorer id: rules that sampled the run."""
    earlier: dict[str, Earlier] = field(default_factory=dict)
    """By scorer id: outcomes so far."""


class Decider:
    """Asks the rules.

    Args:
        rules: by the name they are counted under.
        accounts: where each decision is counted.
        stories: where each decision is remembered.
    """

    def __init__(self, rules: Mapping[str, Rule], accounts: Accounts, stories: Stories) -> None:
        self._accounts = accounts
        self._stories = stories
        self._complained: set[str] = set()
        named = list(rules.items())
        order = in_order([(rule.scorer.id, rule.unit, rule.sample) for _, rule in named])
        self._rules = [named[index] for index in order]

    def open(self, run: Run, unit: str) -> tuple[Case, list[Pick]]:
        """Ask the rules of a unit about a run: the case, and who picks it at once."""
        case = Case(run)
        asked = ((name, rule) for name, rule in self._rules if rule.unit == unit)
        return case, [pick for name, rule in asked if (pick := self._ask(case, name, rule))]

    def rule_out(self, run: Run, unit: str) -> None:
        """Count that no rule of a unit could pick a run: its number is below all their ceilings."""
        for name, rule in self._rules:
            if rule.unit == unit:
                self._skip(Case(run), name, "sampled_out", Chance(rule.sample.ceiling))

    def settle(self, case: Case, scorer_id: str, outcome: Outcome) -> list[Pick]:
        """An outcome is known: who among the waiting picks the run now."""
        case.earlier[scorer_id] = Earlier(case.picked[scorer_id], outcome)
        waiting, case.waiting = case.waiting, []
        return [pick for name, rule in waiting if (pick := self._sample(case, name, rule))]

    def reopen(self, case: Case, unit: str) -> int:
        """Have the cascades that follow a case's picked scorers wait for them anew; returns their number."""
        for name, rule in self._rules:
            follows = rule.sample.follows
            if rule.unit == unit and rule.scorer.id not in case.picked and follows & case.picked.keys():
                self._ask(case, name, rule)
        return len(case.waiting)

    def give_up(self, case: Case, scorer_id: str) -> int:
        """A scorer will not have an outcome now: the number of rules that cease to wait because of it."""
        without = {scorer_id}
        kept: list[tuple[str, Rule]] = []
        for name, rule in case.waiting:  # in order: a rule stands after those it follows
            if rule.sample.follows & without:
                without.add(rule.scorer.id)
            else:
                kept.append((name, rule))
        gone = len(case.waiting) - len(kept)
        case.waiting = kept
        case.picked.pop(scorer_id, None)
        return gone

    def _ask(self, case: Case, name: str, rule: Rule) -> Pick | None:
        try:
            applies = rule.when is None or bool(rule.when(case.run))
        except Exception as error:
            self._fail(case, name, error)
            return None
        if applies:
            return self._sample(case, name, rule)
        self._skip(case, name, "not_applicable")
        return None

    def _sample(self, case: Case, name: str, rule: Rule) -> Pick | None:
        """Decide now, or have the rule wait for those it follows."""
        run, sampler = case.run, rule.sample
        follows = sampler.follows
        if follows and not follows.isdisjoint(self._undecided(case)):
            case.waiting.append((name, rule))
            self._stories.waits(run, name)
            return None
        try:
            chance = sampler.chance(run, case.earlier)
        except Exception as error:
            self._fail(case, name, error)
            return None
        if not picks(chance.probability, *drawn_from(run)):
            reason = chance.why if chance.probability <= 0 and chance.why else "sampled_out"
            self._skip(case, name, reason, chance)
            return None
        case.picked[rule.scorer.id] = chance
        self._accounts.sample(name)
        self._stories.sampled(run, name, chance)
        return Pick(name, rule, chance)

    def _undecided(self, case: Case) -> set[str]:
        """Scorers whose outcome is still to come."""
        return (case.picked.keys() - case.earlier.keys()) | {rule.scorer.id for _, rule in case.waiting}

    def _fail(self, case: Case, name: str, error: Exception) -> None:
        """Count each failure; log a rule's first one, since the next thousand will be the same."""
        if name not in self._complained:
            self._complained.add(name)
            _logger.warning("a condition of rule %s failed; further ones are counted", name, exc_info=error)
        self._skip(case, name, "predicate_failed")

    def _skip(self, case: Case, name: str, reason: str, chance: Chance | None = None) -> None:
        self._accounts.skip(name, reason)
        self._stories.skipped(case.run, name, reason, chance)


def chance_of(sampled: Sampled, run: Run) -> Chance:
    """The chance behind what was recorded: without the head sampler's share."""
    if sampled.probability is None:
        return Chance(1.0, known=False)
    head = recorded_probability(Chance(1.0), drawn_from(run)[1]) or 1.0
    return Chance(min(1.0, sampled.probability / head))
