"""Counts by minute how many runs each rule decided on and sampled, for the sampler check."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from otel_evals._internal.model import Run
from otel_evals._internal.sampling.consistent import randomness_source
from otel_evals._internal.sampling.decide import Decision
from otel_evals._internal.statistics.sums import Picks

_MINUTE = 60
_MOST_MINUTES = 120
_MOST_REMEMBERED = 8_192
_MOST_AGENTS = 100


@dataclass(frozen=True, slots=True)
class MinuteOfPicks:
    """The picks of a rule in a process in a minute. A later one replaces it."""

    process: str
    rule: str
    agent: str
    minute: int
    """Its start, seconds since the Unix epoch."""
    picks: Picks


class PickLog:
    """Counts the decisions of rules. Used on the engine's thread.

    Runs whose randomness no rule's `ceiling` reaches were dropped at their first span, so the others are
    sampled with a probability that is greater by the factor 1 / ceiling.
    """

    def __init__(self, ceiling: float = 1.0, clock: Callable[[], float] = time.time) -> None:
        self._ceiling = ceiling
        self._clock = clock
        self._process = uuid.uuid4().hex
        self._agents: set[str] = set()
        self._counts: dict[tuple[int, str, str], Picks] = {}
        self._changed: set[tuple[int, str, str]] = set()
        self._seen: dict[tuple[str, int], None] = {}

    def note(self, run: Run, decision: Decision) -> None:
        """Count a decision with a known probability.

        A run that only a predicate sampled counts as not sampled, with the probability of the sampler
        without predicates. To leave it out would select on the outcome: of the predicate's runs, only those
        that the other sampler picks would be counted.

        A trace's runs, and a conversation's revisions, share their randomness and are counted once.
        """
        chance, sampler = decision.chance, decision.rule.sampling
        if chance is None or chance.estimable is None or sampler.follows or not self._ceiling:
            return
        if run.turns and sampler.floor != sampler.ceiling:
            return  # of conversations that no rule could pick, the probability is not worked out
        p = min(1.0, chance.estimable if run.turns else chance.estimable / self._ceiling)
        if p <= 0.0:
            return  # the mean is not about runs that the sampler cannot pick
        seen = decision.rule.name, randomness_source(run)[0]
        if seen in self._seen:
            return
        self._seen[seen] = None
        if len(self._seen) > _MOST_REMEMBERED:
            del self._seen[next(iter(self._seen))]
        agent = run.agent_name or ""
        if len(self._agents) < _MOST_AGENTS:
            self._agents.add(agent)
        agent = agent if agent in self._agents else ""
        key = int(self._clock()) // _MINUTE * _MINUTE, decision.rule.name, agent
        picked = chance.known and decision.status == "sampled"
        self._counts[key] = self._counts.get(key, Picks()) + Picks.of(p, picked)
        self._changed.add(key)
        if len(self._counts) > _MOST_MINUTES * 8 and len(self._changed) < len(self._counts):
            self._forget()

    def changed(self) -> Sequence[MinuteOfPicks]:
        """Return the minutes counted since `told`, each as a whole."""
        return [
            MinuteOfPicks(self._process, rule, agent, minute, self._counts[minute, rule, agent])
            for minute, rule, agent in sorted(self._changed)
        ]

    def told(self, rows: Sequence[MinuteOfPicks]) -> None:
        kept = {(row.minute, row.rule, row.agent): row.picks for row in rows}
        # A minute that was counted further meanwhile is sent again.
        self._changed -= {key for key, picks in kept.items() if self._counts.get(key) == picks}
        self._forget()

    def _forget(self) -> None:
        """Forget past minutes that are stored elsewhere, and those too old to be."""
        now = int(self._clock()) // _MINUTE * _MINUTE
        gone = [
            key
            for key in self._counts
            if (key[0] < now and key not in self._changed) or key[0] < now - _MOST_MINUTES * _MINUTE
        ]
        for key in gone:
            del self._counts[key]
            self._changed.discard(key)
