"""Counters over several engine processes: sums, and the final counters of a process that died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from otel_evals._internal.accounting.counters import ConversationStats, Stats
from otel_evals._internal.deliver.counts import DestinationStats
from otel_evals._internal.live.engine_process.relay import Counts

__all__ = ["after_death", "total", "totals", "undelivered"]

_Record = TypeVar("_Record")


def total(first: _Record, second: _Record) -> _Record:
    """Two dataclasses of counts, summed field by field."""
    names = [field.name for field in fields(cast("Any", first))]
    sums = {name: _sum(getattr(first, name), getattr(second, name)) for name in names}
    return cast("_Record", replace(cast("Any", first), **sums))


def totals(first: Mapping[str, _Record], second: Mapping[str, _Record]) -> dict[str, _Record]:
    """Records of counts by name, summed by name."""
    both = {**first, **second}
    return {k: total(first[k], second[k]) if k in first and k in second else v for k, v in both.items()}


def undelivered(counts: Counts, reason: str) -> dict[str, DestinationStats]:
    """The final counts of destinations when their process died: what was pending is dropped."""
    return {
        name: replace(
            stats,
            pending=0,
            dropped=stats.dropped + stats.pending,
            losses=_sum(stats.losses, {reason: stats.pending}),
        )
        for name, stats in counts.destinations.items()
    }


def after_death(counts: Counts, lost: int, reason: str, *, stored: bool) -> Stats:
    """The final counters of a process that died: what was pending is dropped, or left in the store.

    Args:
        counts: its last reported counters.
        lost: spans and log records that were lost with it.
        reason: the reason to count losses under.
        stored: whether pending runs are in a store.
    """
    rules = {
        name: replace(rule, pending=0, stored=rule.stored + rule.pending)
        if stored
        else replace(
            rule, pending=0, dropped=_sum(rule.dropped, {reason: rule.pending} if rule.pending else {})
        )
        for name, rule in counts.stats.rules.items()
    }
    losses = _sum(counts.stats.losses, {f"span_{reason}": lost} if lost else {})
    waiting = counts.stats.conversations.waiting
    conversations = ConversationStats(lost={reason: waiting} if waiting else {})
    return replace(counts.stats, rules=rules, losses=losses, conversations=conversations)


def _sum(first: Any, second: Any) -> Any:
    if is_dataclass(first):
        return total(first, second)
    if not isinstance(first, Mapping):
        return first + second
    if any(not isinstance(value, int) for value in (*first.values(), *second.values())):
        return totals(first, second)
    return dict(Counter(first) + Counter(second))
