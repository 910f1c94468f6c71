"""Time windows from options."""

from __future__ import annotations

import time

from sqlalchemy import func, select

from otel_evals.errors import ConfigError
from otel_evals.sdk.commands import moment_of, seconds_of
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.queries import Window, time_range
from otel_evals_monitor._internal.store.schema import HOUR, NANO, runs


def window_of(database: Database, since: str | None, until: str | None, window: str | None) -> Window:
    """Return a window from options.

    By default a window ends with the newest record of a clock that is not ahead. A window of an
    hour or more starts on the hour, since clusters are stored by the hour.
    """
    if window is None:
        found = Window(_moment(since, "--since"), _moment(until, "--until"))
        if found.since is not None and found.until is not None and found.since >= found.until:
            raise ConfigError("--until", "must be later than --since")
        return found
    if since is not None:
        raise ConfigError("--window", "replaces --since; give one of them")
    length, end = seconds_of(window, "--window"), _moment(until, "--until")
    if end is None:
        with database.reading() as connection:
            recorded = time_range(connection)
            newest = connection.execute(select(func.max(runs.c.recorded))).scalar() or 0
        last = recorded[1] if recorded else int(time.time())
        start, over = last - length, -(-last // HOUR) * HOUR
        return Window(
            start // HOUR * HOUR if length >= HOUR else start, over if newest >= over * NANO else None
        )
    return Window(end - length, end)


def _moment(text: str | None, field: str) -> int | None:
    return None if text is None else moment_of(text, field)
