"""Books over the lives of several processes: sums, and what a death leaves behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

from otel_evals.engine import Stats
from otel_evals.export import DestinationStats
from otel_evals.hosted.relay import Books

__all__ = ["buried", "total", "totals", "undelivered"]

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


def undelivered(books: Books, reason: str) -> dict[str, DestinationStats]:
    """The last books of destinations whose process died: what was on its way is dropped."""
    return {
        name: replace(
            stats,
            pending=0,
            dropped=stats.dropped + stats.pending,
            losses=_sum(stats.losses, {reason: stats.pending}),
        )
        for name, stats in books.destinations.items()
    }


def buried(books: Books, lost: int, reason: str, *, spooled: bool) -> Stats:
    """The last books of a process that died: what was pending in it is dropped, or left in the store.

    Args:
        books: the last that were heard of.
        lost: spans and log records that went down with it.
        reason: why.
        spooled: whether pending runs are in a store.
    """
    rules = {
        name: replace(rule, pending=0, spooled=rule.spooled + rule.pending)
        if spooled
        else replace(
            rule, pending=0, dropped=_sum(rule.dropped, {reason: rule.pending} if rule.pending else {})
        )
        for name, rule in books.stats.rules.items()
    }
    losses = _sum(books.stats.losses, {f"span_{reason}": lost} if lost else {})
    waiting = books.stats.conversations.get("waiting", 0)
    conversations = {f"lost.{reason}": waiting} if waiting else {}
    return replace(books.stats, rules=rules, losses=losses, conversations=conversations)


def _sum(first: Any, second: Any) -> Any:
    if not isinstance(first, Mapping):
        return first + second
    if any(not isinstance(value, int) for value in (*first.values(), *second.values())):
        return totals(first, second)
    return dict(Counter(first) + Counter(second))
