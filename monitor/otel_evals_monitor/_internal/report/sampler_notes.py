"""What the sampler check says of the rules of some slices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from otel_evals.statistics import Picks
from otel_evals_monitor._internal.store.picks import picks_of
from otel_evals_monitor._internal.store.queries import Window

SURPRISING = 4.0
"""Standard deviations beyond which a sampler hardly picks by chance."""


def picked_by_rules(connection: Connection, slices: Mapping[int, Any], window: Window) -> dict[str, Picks]:
    """What the rules of these slices picked; without rules whose processes do not tell that."""
    rules = sorted({each["rule"] for each in slices.values()})
    found = picks_of(connection, window, rules=rules)
    return {rule: picks for rule in rules for picks in found.get(rule, {}).values()}


def sampler_checks(connection: Connection, slices: Mapping[int, Any], window: Window) -> list[str]:
    """A sentence for each rule of these slices; none where processes do not tell what their rules picked."""
    return [_sentence(*each) for each in picked_by_rules(connection, slices, window).items()]


def _sentence(rule: str, picks: Picks) -> str:
    told = f"Sampler check of {rule}: {picks.picked} of {picks.runs} runs were sampled"
    if picks.z is None:
        return f"{told}; nothing was left to chance."
    verdict = "means are not to be relied on" if abs(picks.z) > SURPRISING else "as it should be"
    return f"{told}, {picks.expected:.0f} to be expected (z = {picks.z:+.1f}): {verdict}."
