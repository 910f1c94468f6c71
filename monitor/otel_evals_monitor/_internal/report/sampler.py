"""Whether samples can be relied on: agents whose sampled runs do not stand for the others, and picks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection

from otel_evals.errors import ConfigError
from otel_evals.sampling import parse
from otel_evals.statistics import Picks, Tally
from otel_evals_monitor._internal.store.picks import picks_of
from otel_evals_monitor._internal.store.queries import Window, measure

_RULE_OF_THREE, _UNSEEN = 3.0, 0.1
SURPRISING = 4.0
"""Standard deviations beyond which chance is unlikely."""


def unrepresentative(connection: Connection, slices: Mapping[int, Any], window: Window) -> Collection[str]:
    """Return the agents of these slices whose sampled runs do not represent the runs of a rule."""
    rules = sorted({each["rule"] for each in slices.values()})
    found: set[str] = set()
    counted: set[tuple[str, str]] = set()
    for agent in {each["agent_name"] for each in slices.values()}:
        for rule, steps in picks_of(connection, window, rules=rules, agent=agent).items():
            counted.add((agent, rule))
            if not all(picks.representative for picks in steps.values()):
                found.add(agent)
    by = ("agent_name", "rule", "sampler")
    for (agent, rule, sampler), measured in measure(connection, slices, window, by).items():
        if (agent, rule) not in counted and _lacks_rare(sampler, measured.sampled):
            found.add(agent)
    return found


def _lacks_rare(sampler: str, sampled: Tally) -> bool:
    """Return True if no sampled run has a sampler's lowest probability, and many such runs may exist.

    Tells without the number of runs that the rule considered, which files do not have: if none of k runs was
    picked with probability p, k is below 3 / p in 95 of 100 cases.
    """
    floor = _floor_of(sampler)
    # The 0.99 tolerates rounding of a weight, which is one over a probability.
    unseen = sampled.n > 0 and floor > 0.0 and sampled.w_max < 0.99 / floor
    return unseen and _RULE_OF_THREE / floor > _UNSEEN * sampled.w


@lru_cache(maxsize=1_000)
def _floor_of(sampler: str) -> float:
    """Return the lowest probability of a recorded sampler; 0 if it is unknown."""
    try:
        return parse(sampler).floor
    except ConfigError:
        return 0.0


def picked_by_rules(connection: Connection, slices: Mapping[int, Any], window: Window) -> dict[str, Picks]:
    """Return the picks of these slices' rules; only rules whose processes record them."""
    rules = sorted({each["rule"] for each in slices.values()})
    found = picks_of(connection, window, rules=rules)
    return {rule: picks for rule in rules for picks in found.get(rule, {}).values()}


def sampler_checks(connection: Connection, slices: Mapping[int, Any], window: Window) -> list[str]:
    """Return a sentence for each rule of these slices with recorded picks."""
    return [_sentence(*each) for each in picked_by_rules(connection, slices, window).items()]


def _sentence(rule: str, picks: Picks) -> str:
    text = f"Sampler check of {rule}: {picks.picked:,} of {picks.runs:,} runs were sampled"
    if picks.z is None:
        return f"{text}; no decision was random."
    verdict = "do not rely on the means" if abs(picks.z) > SURPRISING else "as expected"
    return f"{text}, {picks.expected:,.0f} expected (z = {picks.z:+.1f}): {verdict}."
