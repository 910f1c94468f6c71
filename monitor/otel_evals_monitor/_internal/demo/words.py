"""Phrases facts in a random style, and falsifies one for a planned fault."""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from otel_evals_monitor._internal.demo.shop import CARRIERS, CUSTOMERS, PRODUCTS, STORES

_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£"}


def _day(d: date) -> str:
    suffix = "th" if 11 <= d.day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(d.day % 10, "th")
    return f"{d.day}{suffix}"


_DATES: Sequence[Callable[[date], str]] = (
    lambda d: d.isoformat(),
    lambda d: f"{d.day} {d:%B %Y}",
    lambda d: f"{d.day} {d:%B}",
    lambda d: f"{d:%B} {d.day}, {d.year}",
    lambda d: f"{d:%B} {d.day}",
    lambda d: f"{d:%b} {d.day}, {d.year}",
    lambda d: f"{d:%A}, {d.day} {d:%B}",
    lambda d: f"the {_day(d)} of {d:%B}",
    lambda d: f"{d:%B} {_day(d)}",
    lambda d: f"{d.month}/{d.day}/{d.year}",
    lambda d: f"{d:%d.%m.%Y}",
)
_MONEY: Sequence[Callable[[float, str], str]] = (
    lambda x, c: f"{_SIGNS[c]}{x:,.2f}",
    lambda x, c: f"{_SIGNS[c]}{_short(x)}",
    lambda x, c: f"{x:,.2f} {c}",
    lambda x, c: f"{c} {x:.2f}",
    lambda x, c: f"{_short(x)} " + {"USD": "dollars", "EUR": "euros", "GBP": "pounds"}[c],
    lambda x, c: (
        f"{x:,.2f}".translate(str.maketrans(",.", ".,")) + " €" if c == "EUR" else f"{_SIGNS[c]}{x:.2f}"
    ),
)
_TIMES: Sequence[Callable[[int, int], str]] = (
    lambda h, m: f"{h:02}:{m:02}",
    lambda h, m: f"{h}:{m:02}",
    lambda h, m: f"{(h - 1) % 12 + 1}:{m:02} {'am' if h < 12 else 'pm'}",
    lambda h, m: f"{(h - 1) % 12 + 1}{f':{m:02}' if m else ''} {'a.m.' if h < 12 else 'p.m.'}",
)
_PRODUCT_NAMES = [product[1] for product in PRODUCTS]
_OTHERS: Mapping[str, Collection[str]] = {
    "carrier": CARRIERS,
    "name": _PRODUCT_NAMES,
    "other": _PRODUCT_NAMES,
    "item": _PRODUCT_NAMES,
    "last_seen_in": ("Antwerp", "Toulouse", "Memphis", "Katowice", "Malmo"),
    "address": [store[1] for store in STORES],
    "customer": CUSTOMERS,
    "member": CUSTOMERS,
}
"""Wrong values of each fact."""


class Phrasing(string.Formatter):
    """Fills sentences such as `It arrives on {due:date}.` from facts.

    The word after the colon is the fact's kind: money, count, percent, date, time, identifier, name (of a
    person or street), thing (a product, carrier or town), or text.
    With `slip`, the first fact of that kind is wrong; `slipped` then describes the mistake.
    """

    def __init__(self, rng: random.Random, slip: str | None = None, known: Collection[Any] = ()) -> None:
        self._rng, self._slip, self._known = rng, slip, known
        self._date, self._money, self._time = rng.choice(_DATES), rng.choice(_MONEY), rng.choice(_TIMES)
        self._spell, self._bold = rng.random() < 0.4, rng.random() < 0.2
        self.slipped: str | None = None

    def fill(self, sentence: str, facts: Mapping[str, Any]) -> str:
        self._currency = facts.get("currency", "USD")
        return self.vformat(sentence, (), facts)

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Return a fact with its name: `format_field` needs both."""
        return (field_name, kwargs[field_name]), field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        name, fact = value
        said = self._say(fact, format_spec)
        if self.slipped or self._slip is None or KINDS.get(format_spec) != self._slip:
            return said
        wrong = fact
        while wrong in self._known:
            wrong = self._mistake(name, fact, format_spec)
        self.slipped = f"{self._say(wrong, format_spec)} instead of {said}"
        return self._say(wrong, format_spec)

    def _say(self, value: Any, kind: str) -> str:
        match kind:
            case "money":
                return self._money(float(value), self._currency)
            case "date":
                return self._date(date.fromisoformat(value))
            case "time":
                return self._time(int(value[:2]), int(value[3:]))
            case "percent":
                return f"{value}%" if self._spell else f"{value} percent"
            case "count" if self._spell:
                return _SMALL[value] if value < len(_SMALL) else str(value)
            case "identifier" | "thing" if self._bold:
                return f"**{value}**"
        return str(value)

    def _mistake(self, name: str, value: Any, kind: str) -> Any:
        rng = self._rng
        match kind:
            case "money":
                factor = rng.choice((0.1, 0.5, 0.9, 1.1, 1.25, 2, 10))
                return round(value * factor + rng.choice((0, 0, 5, 0.9)), 2)
            case "count" | "percent":
                return max(value + rng.choice((-9, -4, -3, -2, -1, 1, 2, 3, 5, 10)), 0)
            case "date":
                days = rng.choice((-7, -4, -2, -1, 1, 2, 3, 9, 31))
                return str(date.fromisoformat(value) + timedelta(days=days))
            case "time":
                hour, minute = map(int, value.split(":"))
                return f"{(hour + rng.choice((-2, -1, 1, 2))) % 24:02}:{minute:02}"
            case "identifier":
                return _misread(str(value), rng)
        return rng.choice([other for other in _OTHERS[name] if other != value])


def _misread(identifier: str, rng: random.Random) -> str:
    at = rng.choice([i for i, c in enumerate(identifier) if c.isdigit()])
    return identifier[:at] + rng.choice("0123456789".replace(identifier[at], "")) + identifier[at + 1 :]


def _short(amount: float) -> str:
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.2f}"


KINDS: Mapping[str, str] = {
    "money": "wrong_number",
    "count": "wrong_number",
    "percent": "wrong_number",
    "date": "wrong_date",
    "time": "wrong_date",
    "identifier": "wrong_identifier",
    "name": "wrong_name",
    "thing": "mixed_up",
}
"""Possible fault of each kind of fact."""


def kinds_in(sentence: str) -> set[str]:
    """Return the possible faults of a sentence."""
    specs = {spec for _, _, spec, _ in string.Formatter().parse(sentence)}
    return {fault for kind, fault in KINDS.items() if kind in specs}
