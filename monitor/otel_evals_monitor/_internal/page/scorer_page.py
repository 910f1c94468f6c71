"""The page of a scorer and agent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.alarms.limits import AlarmLimits
from otel_evals_monitor._internal.alarms.monitors import WatchState
from otel_evals_monitor._internal.page.asked import Asked
from otel_evals_monitor._internal.page.detail import detail_of
from otel_evals_monitor._internal.page.overview import newest_version
from otel_evals_monitor._internal.report.inputs import GROUPS, ReportOptions
from otel_evals_monitor._internal.report.report import make_report
from otel_evals_monitor._internal.report.runs import runs_of_slices
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.picks import sampler_checks
from otel_evals_monitor._internal.store.queries import Slices, first_seen, measure, stored_slices, time_range

_WORST, _READ, _NAMED = 8, 50, 40


def scorer_page(
    database: Database,
    asked: Asked,
    limits: AlarmLimits,
    state: WatchState | None,
) -> dict[str, Any]:
    """Return the values of the template; raises ConfigError for an unknown scorer."""
    scorer, agent, by = asked["scorer"], asked["agent"], asked["by"] or "version"
    with database.reading() as connection:
        known = stored_slices(connection, scorer_id=scorer, agent_name=agent)
        choices = _choices(connection, scorer, known)
        recorded = time_range(connection)
    if not known or recorded is None:
        raise ConfigError("scorer", f"{scorer!r} of agent {agent!r} is not on record")
    window, only = asked.window(database), asked.columns
    values: dict[str, Any] = {"choices": choices, "by": by, "groups": list(GROUPS), "row": None}
    values |= {"state": state}
    options = ReportOptions(window=window, only=only, worst=0, runs=asked.runs, patterns=0)
    against = "previous" if window.since is not None else None
    # Patterns are of all runs, also with a filter of runs, where they only group the worst runs.
    report = make_report(database, replace(options, against=against, patterns=10))
    whole = report.slices
    split = make_report(database, replace(options, by=[by], against=_older(database, options, by))).slices
    if not whole:
        return values
    floor = limits.floors.get(scorer)
    with database.reading() as connection:
        row = newest_version(connection, whole)
        inside = stored_slices(connection, **only)
        # More than the page shows, since runs of a pattern share one line.
        worst = runs_of_slices(connection, inside, window, _READ, order="worst", runs=asked.runs)
        values |= detail_of(
            connection,
            inside,
            row,
            window,
            recorded,
            runs=asked.runs,
            floor=floor,
            href=lambda a, b: asked.href("/runs", since=a, until=b, window=""),
            zone=asked.zone,
        )
        values |= {
            "worst": row.failures.shared(worst)[:_WORST],
            "sampler": sampler_checks(connection, inside, window),
        }
    return values | {
        "notes": report.notes,
        "versions": len(whole),
        "rows": split,
        "columns": list(dict.fromkeys([GROUPS.get(by, by), "scorer_version"])),
    }


def _choices(connection: Connection, scorer: str, known: Slices) -> dict[str, list[str]]:
    """Return the values that the filters offer."""
    of_scorer = stored_slices(connection, scorer_id=scorer)
    choices = {"agent": sorted({each["agent_name"] for each in of_scorer.values()})[:_NAMED]}
    for name in ("version", "prompt", "model", "tenant"):
        choices[name] = sorted({each[GROUPS[name]] for each in known.values()} - {""})[-_NAMED:]
    return choices


def _older(database: Database, options: ReportOptions, by: str) -> str | None:
    """Return the version before the newest one of the window, to compare with."""
    if by not in ("version", "prompt"):
        return None
    with database.reading() as connection:
        slices = stored_slices(connection, **options.only)
        # Of all time on record: a version may have begun before the window.
        versions = [version for _, version in first_seen(connection, slices, GROUPS[by]) if version]
        inside = measure(connection, slices, options.window, (GROUPS[by],), options.runs)
    known = [version for version in versions if (version,) in inside]
    return known[-2] if len(known) > 1 else None
