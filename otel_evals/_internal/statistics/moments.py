"""Times and durations as written in options."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from otel_evals.errors import ConfigError

_MINUTE = 60
_UNITS = {"m": _MINUTE, "h": 60 * _MINUTE, "d": 24 * 60 * _MINUTE, "w": 7 * 24 * 60 * _MINUTE}


def seconds_of(text: str, field: str) -> int:
    """Return a duration such as 15m, 24h, 7d or 2w in seconds.

    Raises:
        ConfigError: the text is no duration; names the field.
    """
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text.strip())
    if found is None or not int(found[1]):
        raise ConfigError(field, f"{text!r} is not a duration: write 15m, 24h, 7d or 2w")
    return int(found[1]) * _UNITS[found[2]]


def moment_of(text: str, field: str) -> int:
    """Return a time in seconds since the Unix epoch, at a full minute.

    The text is ISO 8601, by default in UTC, or a duration before now.

    Raises:
        ConfigError: the text is neither; names the field.
    """
    if re.fullmatch(r"\d{1,6}[mhdw]", text.strip()):
        return (int(time.time()) - seconds_of(text, field)) // _MINUTE * _MINUTE
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigError(
            field, f"{text!r} is not a time: write 2026-11-20, 2026-11-20T10:00, or 24h"
        ) from None
    aware = found if found.tzinfo else found.replace(tzinfo=UTC)
    return int(aware.timestamp()) // _MINUTE * _MINUTE
