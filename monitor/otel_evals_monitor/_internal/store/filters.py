"""Time windows, and filters of single runs, for the queries of the results store."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, Text, case, cast, func, literal, or_, select

from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.schema import HOUR

SEARCHED = 20_000
"""Number of runs that a filter of single runs considers, the newest ones."""


@dataclass(frozen=True, slots=True)
class Window:
    """A time window of runs: from `since` up to, not including, `until`.

    Both are whole minutes in seconds since the Unix epoch; None leaves that side open.
    """

    since: int | None = None
    until: int | None = None

    @property
    def hours(self) -> bool:
        """True if the window begins and ends on the hour."""
        return self == self.whole_hours

    @property
    def whole_hours(self) -> Window:
        """The whole hours around this window: for these, the store has clusters of many runs."""
        since = None if self.since is None else self.since // HOUR * HOUR
        until = None if self.until is None else max(-(-self.until // HOUR) * HOUR, (since or 0) + HOUR)
        return Window(since, until)

    def ends(self, recorded: tuple[int, int]) -> tuple[int, int]:
        """Return start and end; an open side is the first or last recorded time."""
        return self.since or recorded[0], self.until or recorded[1]

    def of(self, query: Select[Any], column: Any, unit: int = 1) -> Select[Any]:
        """Limit a query to this window; the column has `unit` ticks per second."""
        if self.since is not None:
            query = query.where(column >= self.since * unit)
        return query if self.until is None else query.where(column < self.until * unit)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Conditions on single runs, and a group of them, which the sums of slices cannot answer."""

    label: str = ""
    """Label of the score."""
    text: str = ""
    """Part of the messages, tool calls or reason; letters in either case."""
    attribute: str = ""
    """Name of an attribute of runs: groups by its values, unless `value` is given."""
    value: str | None = None
    """Value that the attribute must have."""

    def __bool__(self) -> bool:
        return bool(self.label or self.text or self.attribute)

    def conditions(self) -> list[ColumnElement[bool]]:
        table, runs = schema.evaluations.c, schema.runs.c
        found: list[ColumnElement[bool]] = [table.label == self.label] if self.label else []
        if self.text:
            # Content is JSON, where quotes and line breaks are escaped.
            written = json.dumps(self.text, ensure_ascii=False)[1:-1]
            theirs = select(runs.key).where(runs.content.icontains(written, autoescape=True))
            said = table.explanation.icontains(self.text, autoescape=True)
            found.append(or_(said, table.run_key.in_(theirs)))
        if self.value is not None:
            theirs = select(runs.key).where(func.coalesce(_attribute(self.attribute), "") == self.value)
            found.append(table.run_key.in_(theirs))
        return found

    def among(self, slices: Iterable[int], window: Window) -> Select[Any]:
        """Return the ids of the newest evaluations that the filter considers."""
        table = schema.evaluations.c
        query = select(table.id).where(table.slice_id.in_(list(slices)))
        return window.of(query, table.time, schema.NANO).order_by(table.time.desc()).limit(SEARCHED)

    def rollups(self, slices: Iterable[int], window: Window) -> Any:
        """Return the matching runs in the form of rollups, each run as one row."""
        table = schema.evaluations.c
        known = case((table.weight.is_(None), 0), else_=1)
        w, x = func.coalesce(table.weight, 0.0), func.coalesce(table.x, 0.0)
        ends = case((table.weight.is_(None), None), else_=table.x)
        group = func.coalesce(_attribute(self.attribute), "") if self.attribute else literal("")
        return (
            select(
                *(table.slice_id, table.status, table.reason, table.missing, table.cluster),
                group.label("attribute"),
                cast(table.time // schema.NANO, BigInteger).label("bucket"),
                known.label("n"),
                (1 - known).label("unknown"),
                *(value.label(name) for name, value in schema.products(w, x).items()),
                w.label("w_max"),
                ends.label("x_min"),
                ends.label("x_max"),
                func.coalesce(table.cost, 0.0).label("cost"),
            )
            .select_from(schema.evaluations.join(schema.runs, schema.runs.c.key == table.run_key))
            .where(table.id.in_(self.among(slices, window)), *self.conditions())
            .subquery()
        )


def _attribute(name: str) -> ColumnElement[Any]:
    return cast(schema.runs.c.attributes[name].as_string(), Text)


EVERY = RunFilter()
