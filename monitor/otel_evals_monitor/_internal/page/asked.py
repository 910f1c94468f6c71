"""The choices in a page's address: scorer, time, filters, order and page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import urlencode

from starlette.requests import Request

from otel_evals.errors import ConfigError
from otel_evals_monitor._internal.page.forms import number_of
from otel_evals_monitor._internal.report.inputs import window_of
from otel_evals_monitor._internal.report.words import Zone
from otel_evals_monitor._internal.store.database import Database
from otel_evals_monitor._internal.store.filters import RunFilter, Window
from otel_evals_monitor._internal.store.schema import NANO

ZONE_COOKIE = "otel_evals_zone"
WINDOWS = ("6h", "24h", "2d", "7d", "4w", "all")
DEFAULT = "24h"
PAGE_SIZE = 50
_LAST_PAGE = 200
_COLUMNS = {"version": "agent_version", "prompt": "prompt_version", "model": "model", "tenant": "tenant"}
_FILTERS = (*_COLUMNS, "label", "text", "status")
_OTHERS = ("scorer", "agent", "window", "since", "until", "by", "order", "page", "score", "saved")
# In nanoseconds, later times do not fit a BIGINT.
_YEAR_2262 = 2**63 // NANO


@dataclass(frozen=True, slots=True)
class Asked:
    """The choices of a request; empty texts are not given."""

    values: Mapping[str, str]
    zone: Zone = field(default_factory=Zone)

    @classmethod
    def of(cls, request: Request) -> Asked:
        values = {name: _text(request, name) for name in (*_OTHERS, *_FILTERS)}
        return cls(values, Zone.named(request.cookies.get(ZONE_COOKIE, "UTC")))

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    def href(self, path: str, **changed: object) -> str:
        """Return the address of a page with these choices, changed in part; empty texts remove one."""
        # Another choice gives another list, in which the old page and score mean nothing.
        values = {**self.values, "page": "", "score": "", "saved": "", **changed}
        return f"{path}?{urlencode({name: value for name, value in values.items() if value})}"

    @property
    def length(self) -> str:
        """The chosen length of the window; empty if start or end are given."""
        return "" if self["since"] or self["until"] else self["window"] or DEFAULT

    @property
    def filters(self) -> Mapping[str, str]:
        return {name: self[name] for name in _FILTERS if self[name]}

    @property
    def of_run(self) -> dict[str, str]:
        """Wanted values of columns of runs."""
        names = {"agent": "agent_name", **_COLUMNS}
        return {column: self[name] for name, column in names.items() if self[name]}

    @property
    def columns(self) -> dict[str, str]:
        """Wanted values of slice columns; a scorer's page is of one agent, which may have no name."""
        scorer = {"scorer_id": self["scorer"], "agent_name": self["agent"]} if self["scorer"] else {}
        return self.of_run | scorer

    @property
    def runs(self) -> RunFilter:
        return RunFilter(self["label"], self["text"])

    @property
    def page(self) -> int:
        """Number of the page, from 1."""
        number = self["page"]
        return min(max(int(number), 1), _LAST_PAGE) if re.fullmatch("[0-9]{1,5}", number) else 1

    def window(self, database: Database, default: str = DEFAULT) -> Window:
        """Return the window; one of a length ends with the newest record."""
        length = self["window"] or default
        # Without a length, it has the chosen start and end.
        if not self.length or length == "all":
            return Window(self._time("since"), self._time("until"))
        return window_of(database, None, None, length)

    def local(self, name: str) -> str:
        """Return a chosen time as the value of a form's field; empty if none is chosen."""
        seconds = self._time(name)
        return "" if seconds is None else self.zone.at(seconds).strftime("%Y-%m-%dT%H:%M")

    def _time(self, name: str) -> int | None:
        """Read a time: seconds since 1970, or a local time of a form."""
        text = self[name]
        if not text:
            return None
        if "T" in text:
            try:
                local = datetime.fromisoformat(text)
                seconds = (local if local.tzinfo else local.replace(tzinfo=self.zone.info)).timestamp()
            except (ValueError, OverflowError):
                raise ConfigError(name, f"{text!r:.100} is not a time") from None
        else:
            seconds = number_of(text, name)
        if not 0 <= seconds < _YEAR_2262:
            raise ConfigError(name, "must be a time between 1970 and 2262")
        return int(seconds) // 60 * 60


def _text(request: Request, name: str) -> str:
    """Return a query parameter; PostgreSQL accepts no NUL in a text."""
    return request.query_params.get(name, "")[:8_000].replace("\x00", "").strip()
