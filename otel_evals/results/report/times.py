"""Windows of time as people write them."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from otel_evals.errors import ConfigError
from otel_evals.results.store.database import Database
from otel_evals.results.store.reading import Window, time_range
from otel_evals.results.store.schema import HOUR, MINUTE

__all__ = ["seconds_of", "window_of"]

_UNITS = {"m": MINUTE, "h": HOUR, "d": 24 * HOUR, "w": 7 * 24 * HOUR}


def seconds_of(text: str, field: str) -> int:
    """A length such as 15m, 24h, 7d or 2w in seconds.

    Raises:
        ConfigError: it is none; names the field.
    """
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip())
    if found is None or not int(found[1]):
        raise ConfigError(field, f"{text!r} is no length of time: write 15m, 24h, 7d or 2w")
    return int(found[1]) * _UNITS[found[2]]


def window_of(database: Database, since: str | None, until: str | None, window: str | None) -> Window:
    """A window from options.

    A window ends with the newest record, and starts with a full hour if it is an hour long or more, since
    clusters are kept by the hour.

    Raises:
        ConfigError: an option is wrong, or `window` stands beside `since`.
    """
    if window is None:
        found = Window(_moment(since, "--since"), _moment(until, "--until"))
        if found.since is not None and found.until is not None and found.since >= found.until:
            raise ConfigError("--until", "must be later than --since")
        return found
    if since is not None:
        raise ConfigError("--window", "stands for --since; give one of them")
    length, end = seconds_of(window, "--window"), _moment(until, "--until")
    if end is None:
        with database.reading() as connection:
            recorded = time_range(connection)
        last = recorded[1] if recorded else int(time.time())
        start = last - length
        return Window(start // HOUR * HOUR if length >= HOUR else start)
    return Window(end - length, end)


def _moment(text: str | None, field: str) -> int | None:
    """A time in seconds, at a full minute; without a time zone it is UTC."""
    if text is None:
        return None
    if re.fullmatch(r"\d{1,6}[mhdw]", text.strip()):
        return (int(time.time()) - seconds_of(text, field)) // MINUTE * MINUTE
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(field, f"{text!r} is no time: write 2026-11-20, 2026-11-20T10:00, or 24h") from None
    aware = found if found.tzinfo else found.replace(tzinfo=UTC)
    return int(aware.timestamp()) // MINUTE * MINUTE
