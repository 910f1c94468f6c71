"""Numbers, intervals, counts, times and texts in words, for the terminal, the page and alarms."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from otel_evals.statistics import Interval

_DAY = 86_400


@dataclass(frozen=True, slots=True)
class Zone:
    info: tzinfo = UTC
    name: str = "UTC"

    @classmethod
    def named(cls, name: str) -> Zone:
        """Return the zone of the IANA database with this name; UTC if it is unknown."""
        try:
            return cls(ZoneInfo(name), name)
        except (ValueError, OSError, LookupError):  # any text may arrive in a cookie
            return cls()

    def at(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds, UTC).astimezone(self.info)

    def clock(self, seconds: float) -> int:
        """Return the seconds that local clocks show, as UTC's clocks show the Unix epoch's."""
        return int(self.at(seconds).replace(tzinfo=UTC).timestamp())

    def when(self, clock: int) -> int:
        """Return the first time at which local clocks show this."""
        return int(datetime.fromtimestamp(clock, UTC).replace(tzinfo=self.info).timestamp())

    def short(self, seconds: float) -> str:
        """Return day and time, such as `24 Nov 09:30`."""
        return self.at(seconds).strftime("%d %b %H:%M")

    def full(self, seconds: float) -> str:
        return self.at(seconds).strftime("%Y-%m-%d %H:%M %Z")


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if abs(value) < 1000 else f"{value:.4g}"


def interval(value: Interval | None) -> str:
    """Return the ends of an interval; empty without one."""
    return "" if value is None else f"{number(value.low)} to {number(value.high)}"


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "\N{MINUS SIGN}")


def count(value: float, noun: str = "") -> str:
    """Return a number with separators of thousands, with a noun if one is given."""
    shown = f"{value:,.0f}"
    return f"{shown} {noun}{'' if shown == '1' else 's'}" if noun else shown


def length_of(seconds: float) -> str:
    for unit, name in ((_DAY, "day"), (3600, "h"), (60, "min")):
        if seconds >= unit:
            return count(seconds / unit, name) if name == "day" else f"{seconds / unit:.0f} {name}"
    return f"{seconds:.0f} s"


def one_line(text: str, width: int) -> str:
    """Return one printable line, without control characters of an agent's answer."""
    line = "".join(c for c in " ".join(text[: width * 8].split()) if c.isprintable())
    return line if len(line) <= width else line[: width - 1] + "…"


def sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def timestamp(seconds: float | None) -> str | None:
    """Return a time by RFC 3339."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
