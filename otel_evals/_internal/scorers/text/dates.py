"""Dates and times of day as people write them: 2026-11-25, Nov 25th, 25.11.2026, 3:45 PM, 15h45, 15 Uhr."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otel_evals._internal.scorers.text.claim import Claim, Day

# January to December: English, German, French, Spanish, Italian, Portuguese, Dutch, Russian (genitive).
_MONTH_NAMES = (
    "january jan januar janvier enero gennaio janeiro januari января",
    "february feb februar février febrero febbraio fevereiro februari февраля",
    "march mar märz mars marzo março maart марта",
    "april apr avril abril aprile апреля",
    "may mai mayo maggio maio mei мая",
    "june jun juni juin junio giugno junho июня",
    "july jul juli juillet julio luglio julho июля",
    "august aug août agosto augustus августа",
    "september sep sept septembre septiembre settembre setembro сентября",
    "october oct oktober octobre octubre ottobre outubro okt октября",
    "november nov novembre noviembre novembro ноября",
    "december dec dezember décembre diciembre dicembre dezembro dez ноябрь декабря",
)
_MONTHS = {name: i for i, names in enumerate(_MONTH_NAMES, 1) for name in names.split()}
_DATE = re.compile(
    r"""(?<![A-Za-z_\d.])(?=\d)(?:
      (?P<iso>\d{4})[-/.](?P<iso_m>\d{1,2})[-/.](?P<iso_d>\d{1,2})(?![\d-])
    | (?P<a>\d{1,2})(?P<sep>[./-])(?P<b>\d{1,2})(?P=sep)(?P<y>\d{4}|\d{2})(?![\w-])
    | (?:(?<=\b[Aa][mb]\s)|(?<=\b(?:[Vv]om|[Bb]is|[Zz]um|[Dd]e[nm])\s))  # am 25.11.
      (?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?!\d)
    | (?:(?P<cjk_y>\d{4})\s?[年년]\s?)?(?P<cjk_m>\d{1,2})\s?[月월]\s?(?P<cjk_d>\d{1,2})\s?[日일号]
    )""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d_]{3,10}")
_DAY_BEFORE = re.compile(r"(?<!\w)(\d{1,2})(?:st|nd|rd|th|\.|er|º)?(?:\s+(?:of|de))?\s+$", re.IGNORECASE)
_YEAR_AFTER = re.compile(r"\.?,?\s+(?:of\s+|de\s+)?(\d{4})(?!\d)", re.IGNORECASE)
_DAY_AFTER = re.compile(
    r"""\.?\s+(\d{1,2})(?!\d|:\d|[.,]\d)(?:st|nd|rd|th)?
    (?:\s?(?:-|to|and|&)\s?(?P<until>\d{1,2})(?!\d|:\d|[.,]\d)(?:st|nd|rd|th)?)?(?:,?\s+(?P<year>\d{4})(?!\d))?(?!\w)""",
    re.VERBOSE | re.IGNORECASE,
)
_TIME = re.compile(
    r"""(?:(?<![A-Za-z_\d:.])|(?<=[\d\0]T))(?=\d)(?P<h>\d{1,2})  # the date before a T is blanked by now
    (?:(?::|h(?=\d\d\b)|\.(?=\d\d\s?Uhr\b)|[時时点點시]\s?)(?P<m>[0-5]\d)
       (?P<s>:\d\d(?:\.\d+)?(?:[+-]\d\d:\d\d(?!:))?)?(?!\d))?  # the offset of a zone is no time
    (?:\s?(?:(?P<half>[ap]\.?m\b\.?)|(?P<clock>Uhr\b)))?""",
    re.VERBOSE | re.IGNORECASE,
)


def dates_in(text: str) -> Iterator[Claim]:
    """Yield the dates of a text. `May 2026` has no day, `25 November` no year."""
    for match in _DATE.finditer(text):
        days = tuple(day for day in _numeric(match) if _possible(day))
        if days:
            yield Claim("date", match[0], match.start(), days=days)
    for match in _WORD.finditer(text):
        month = _MONTHS.get(match[0].lower())
        if month is not None:
            yield from _around_month(text, match.start(), match.end(), month)


def times_in(text: str) -> Iterator[Claim]:
    """Yield the times of day of a text; without a.m. or p.m. an hour up to 12 may mean either half."""
    for match in _TIME.finditer(text):
        hour, minute = int(match["h"]), int(match["m"] or 0)
        if not (match["m"] or match["half"] or match["clock"]) or hour > 24:
            continue
        # 24:00 is midnight.
        hours = [hour % 24]
        if match["half"]:
            hours = [hour % 12 + (12 if match["half"][0] in "pP" else 0)]
        elif hour <= 12 and not match["s"]:
            # Without a.m. or p.m.
            hours.append((hour + 12) % 24)
        yield Claim("time", match[0], match.start(), times=tuple((h, minute) for h in hours))


def _numeric(match: re.Match[str]) -> Iterator[Day]:
    if match["iso"]:
        yield int(match["iso"]), int(match["iso_m"]), int(match["iso_d"])
    elif match["day"]:
        yield None, int(match["month"]), int(match["day"])
    elif match["cjk_m"]:
        yield int(match["cjk_y"]) if match["cjk_y"] else None, int(match["cjk_m"]), int(match["cjk_d"])
    else:
        a, b, year = int(match["a"]), int(match["b"]), int(match["y"])
        # Two digits are a year of this century.
        year += 2000 if year < 100 else 0
        # 3/4/2026 may be read in either order.
        yield year, b, a
        yield year, a, b


def _around_month(text: str, start: int, end: int, month: int) -> Iterator[Claim]:
    """Yield the dates around the name of a month: 25 November 2026, Nov 25th, Nov 25-27, November 2026."""
    # Bounded: without a start, the search would try each character before the month.
    if before := _DAY_BEFORE.search(text, max(0, start - 12), start):
        after = _YEAR_AFTER.match(text, end)
        day: Day = (int(after[1]) if after else None, month, int(before[1]))
        yield from _when(text, before.start(), after.end() if after else end, day)
    elif after := _DAY_AFTER.match(text, end):
        year = int(after["year"]) if after["year"] else None
        stop = after.start("until") if after["until"] else after.end()
        yield from _when(text, start, stop, (year, month, int(after[1])))
        if after["until"]:
            yield from _when(text, stop, after.end(), (year, month, int(after["until"])))
    # Without a day or a year, the name of a month is no date: `may` is also a verb.
    elif after := _YEAR_AFTER.match(text, end):
        yield from _when(text, start, after.end(), (int(after[1]), month, None))


def _when(text: str, start: int, end: int, day: Day) -> Iterator[Claim]:
    if _possible(day):
        yield Claim("date", text[start:end], start, days=(day,))


def _possible(day: Day) -> bool:
    return 1 <= day[1] <= 12 and (day[2] is None or 1 <= day[2] <= 31)
