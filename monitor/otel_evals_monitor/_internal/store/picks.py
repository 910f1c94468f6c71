"""Whether samples can be relied on: picks of sampling rules, and agents whose sampled runs mislead.

Picks are written per process, and added up for the sampler check.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, cast, delete, func, select

from otel_evals.errors import ConfigError
from otel_evals.sampling import parse
from otel_evals.statistics import Picks, Tally
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.filters import Window
from otel_evals_monitor._internal.store.queries import Slices, measure
from otel_evals_monitor._internal.store.writer import overwriting, upsert

_KEPT = 30 * 86_400
_COUNTED = tuple(each.name for each in fields(Picks))
_KEYS = ("bucket", "rule", "agent_name", "process")
_overwrite = overwriting(schema.picks, *_KEYS)
_RULE_OF_THREE, _UNSEEN = 3.0, 0.1
SURPRISING = 4.0
"""Standard deviations beyond which chance is unlikely."""


def keep_picks(database: Database, rows: Iterable[Any]) -> None:
    """Write the picks of a process by minute, and delete picks older than thirty days.

    Rows have `process`, `rule`, `agent`, `minute` (its start, Unix time) and `picks`; a later count of a
    minute replaces the earlier one.
    """
    table = schema.picks
    values: list[dict[str, Any]] = [
        {"bucket": row.minute, "rule": row.rule, "agent_name": row.agent, "process": row.process}
        | asdict(row.picks)
        for row in rows
    ]
    if values:
        with database.writing() as connection:
            upsert(connection, table, values, _KEYS, _overwrite)
            # Counted back from the written minutes, not from this process's clock.
            connection.execute(delete(table).where(table.c.bucket < values[-1]["bucket"] - _KEPT))


def picks_of(
    connection: Connection,
    window: Window,
    step: int | None = None,
    rules: Sequence[str] | None = None,
    agent: str | None = None,
) -> Mapping[str, Mapping[int, Picks]]:
    """Return the picks of rules in a window, by rule and start of the step; without a step, under 0."""
    table = schema.picks.c
    start = table.bucket - table.bucket % step if step else table.bucket * 0
    # PostgreSQL's sum of integers is a decimal.
    sums = [cast(func.sum(table[name]), table[name].type).label(name) for name in _COUNTED]
    query = select(table.rule, start.label("start"), *sums).group_by(table.rule, start)
    query = window.of(query, table.bucket)
    if rules is not None:
        query = query.where(table.rule.in_(list(rules)))
    if agent is not None:
        query = query.where(table.agent_name == agent)
    found: dict[str, dict[int, Picks]] = {}
    for row in connection.execute(query.order_by("start")):
        picks = Picks(**{name: getattr(row, name) for name in _COUNTED})
        found.setdefault(row.rule, {})[int(row.start)] = picks
    return found


def unrepresentative(connection: Connection, slices: Slices, window: Window) -> Collection[str]:
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


def picked_by_rules(connection: Connection, slices: Slices, window: Window) -> dict[str, Picks]:
    """Return the picks of these slices' rules; only rules whose processes record them."""
    rules = sorted({each["rule"] for each in slices.values()})
    found = picks_of(connection, window, rules=rules)
    return {rule: steps[0] for rule, steps in sorted(found.items())}


def sampler_checks(connection: Connection, slices: Slices, window: Window) -> list[str]:
    """Return a sentence for each rule of these slices with recorded picks."""
    return [_sentence(*each) for each in picked_by_rules(connection, slices, window).items()]


def _sentence(rule: str, picks: Picks) -> str:
    text = f"Sampler check of {rule}: {picks.picked:,} of {picks.runs:,} runs were sampled"
    if picks.z is None:
        return f"{text}; no decision was random."
    verdict = "do not rely on the means" if abs(picks.z) > SURPRISING else "as expected"
    return f"{text}, {picks.expected:,.0f} expected (z = {picks.z:+.1f}): {verdict}."
