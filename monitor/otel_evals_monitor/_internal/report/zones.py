"""Times in a time zone, for the page and the plots."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo


@dataclass(frozen=True, slots=True)
class Zone:
    info: tzinfo = UTC
    name: str = "UTC"

    @classmethod
    def named(cls, name: str | None) -> Zone:
        """Return the zone of the IANA database with this name; UTC if it is unknown."""
        if not name or name in ("UTC", "Etc/UTC"):
            return cls()
        try:
            return cls(ZoneInfo(name), name)
        except (ValueError, OSError, LookupError):  # any text may arrive in a cookie
            return cls()

    def at(self, seconds: float) -> datetime:
        return datetime.fromtimestamp(seconds, UTC).astimezone(self.info)

    def offset(self, seconds: float) -> int:
        """Return the seconds by which local time is ahead of UTC."""
        ahead = self.at(seconds).utcoffset()
        return int(ahead.total_seconds()) if ahead else 0

    def short(self, seconds: float) -> str:
        """Return day and time, such as `24 Nov 09:30`."""
        return self.at(seconds).strftime("%d %b %H:%M")

    def full(self, seconds: float) -> str:
        return self.at(seconds).strftime("%Y-%m-%d %H:%M %Z")
