"""Numbers as people write them: 1,234.50 and 1.234,50, $49.90, 22 °C, 50%, 1.2 million, twenty-five.

How a number is meant is often ambiguous (is `1.234` a thousand or a bit more than one?), so a number
carries all its readings. Signs are ignored: a refund of -20 is a refund of 20.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

__all__ = ["SECONDS", "Number", "numbers_in", "readings", "with_context"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Number:
    """A number in a text."""

    text: str
    """As written, with its currency or unit."""
    readings: tuple[Decimal, ...]
    """What it may mean, magnitude words such as `million` applied."""
    unit: str = ""
    """`money`, `%`, `c`, `f`, `second`, `minute`, `hour`, `day`, `week`, `ordinal`, or empty."""
    approximate: bool = False
    """Whether the text says about, roughly, nearly, over, ..."""
    remainder: bool = False
    """Whether the text near it speaks of what remains, differs, is saved, owed or given back."""
    start: int

    def last_place(self, value: Decimal) -> Decimal:
        """Worth of one in the last place written of a reading: 0.01 for 49.90, 100000 for 1.2 million."""
        return Decimal((0, (1,), int(value.as_tuple().exponent)))


_IN_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}
SECONDS = {unit: Decimal(seconds) for unit, seconds in _IN_SECONDS.items()}
"""Seconds in each unit of time."""

_MAX_DIGITS = 24
_UNITS = {
    "%": "% percent percentage pct",
    "c": "c celsius °c",
    "f": "f fahrenheit °f",
    "second": "s sec secs second seconds",
    "minute": "min mins minute minutes",
    "hour": "h hr hrs hour hours",
    "day": "day days",
    "week": "week weeks",
    "ordinal": "st nd rd th",
    "money": "dollar dollars euro euros pound pounds usd eur gbp chf jpy cad aud inr cny rub pln kr zł",
}
_UNIT_OF = {word: unit for unit, words in _UNITS.items() for word in words.split()}
_MAGNITUDES = {"k": 3, "thousand": 3, "m": 6, "mn": 6, "million": 6, "bn": 9, "b": 9, "billion": 9}
_MAGNITUDES |= {"万": 4, "萬": 4, "亿": 8, "億": 8}
_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(_ONES.split())}
_LARGE = {word: 20 + 10 * tens for tens, word in enumerate(_TENS.split())}
_WORDS = _SMALL | _LARGE

# Groups of three parted by a space are read as one number only where cents or a currency follow.
_SPACED = r"\d{1,3}(?:[ \u202f]\d{3})+(?=,\d\d(?!\d)|[ ]?[€₽]|[ ]?(?:EUR|zł|kr|Kč)\b)(?:,\d\d)?"
_NUMBER = re.compile(
    rf"""(?P<digits>{_SPACED}|\d+(?:[.,'\u202f]\d+)*)
    (?:[ -]?(?P<magnitude>[万萬亿億]|(?:thousand|million|billion|k|mn|m|bn|b)\b))?
    (?:[ -]?(?P<unit>°\s?[CF]\b|[°%]|[^\W\d_]+)|[ ]?(?P<sign>[^\w\s]))?""",
    re.VERBOSE | re.IGNORECASE,
)
_WORD_NUMBER = re.compile(
    rf"\b(?:(?P<tens>{'|'.join(_LARGE)})(?:[- ](?P<ones>{'|'.join([*_SMALL][1:10])}))?|"
    rf"(?P<small>{'|'.join(_SMALL)}))"
    r"\b(?:[ -](?P<unit>[^\W\d_]+))?",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"(?:(?P<sign>[^\w\s])|\b(?:USD|EUR|GBP|CHF|JPY|CAD|AUD|INR|CNY|RUB|PLN))[ ]?$", re.IGNORECASE
)
_APPROXIMATELY = re.compile(
    r"(?:\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|over|under|more than|less than|"
    r"circa|ca\.)|[~≈<>])\s*\W?$",
    re.IGNORECASE,
)
_REMAINDER = re.compile(
    r"\b(?:remain|left|balance|differ|refund|sav(?:e|ing)|owe|additional|extra|change)", re.IGNORECASE
)


def readings(digits: str) -> tuple[Decimal, ...]:
    """What a string of digits and separators may mean; empty when it is no number (1.2.3) or endless."""
    if len(digits) > _MAX_DIGITS:
        return ()
    if digits.isdigit():
        return (Decimal(digits),)
    digits = re.sub("['\u202f ]", "", digits)
    marks = re.findall("[.,]", digits)
    groups = re.split("[.,]", digits)
    if not marks:
        return (Decimal(digits),)
    if len(set(marks)) == 1:
        grouped = all(len(g) in (2, 3) for g in groups[1:-1]) and len(groups[-1]) == 3 and len(groups[0]) <= 3
        whole = (Decimal("".join(groups)),) if grouped else ()
        return whole + ((Decimal(".".join(groups)),) if len(marks) == 1 else ())
    if marks.count(marks[-1]) > 1 or len(set(marks[:-1])) > 1:
        return ()
    return (Decimal("".join(groups[:-1]) + "." + groups[-1]),)


def numbers_in(text: str) -> Iterator[Number]:
    """The numbers that a text states, in digits of any script or in English words from two on.

    What the text around them says is left out: see with_context.
    """
    for match in _NUMBER.finditer(text):
        values = readings(match["digits"])
        if values:
            yield _in_digits(text, match, values)
    for match in _WORD_NUMBER.finditer(text):
        value = sum(_WORDS[word.lower()] for word in match.group("tens", "ones", "small") if word)
        if value > 1:
            yield _in_words(match, value)


def _in_digits(text: str, match: re.Match[str], values: tuple[Decimal, ...]) -> Number:
    power = _MAGNITUDES.get((match["magnitude"] or "").lower(), 0)
    unit = _UNIT_OF.get((match["unit"] or "").replace(" ", "").lower(), "")
    start, end = match.start(), match.end("unit" if unit else "magnitude" if power else "digits")
    before = _BEFORE.search(text, max(0, start - 5), start)
    if before and (not before["sign"] or _is_currency(before["sign"])):
        start, unit = before.start(), "money"
    elif match["sign"] and _is_currency(match["sign"]):
        end, unit = match.end(), "money"
    return Number(
        text=text[start:end],
        readings=tuple(value.scaleb(power) for value in values),
        unit=unit,
        start=start,
    )


def with_context(number: Number, text: str) -> Number:
    """A number with what the text around it says: `approximate` and `remainder`."""
    start, end = number.start, number.start + len(number.text)
    return replace(
        number,
        approximate=bool(_APPROXIMATELY.search(text, max(0, start - 20), start)),
        remainder=bool(_REMAINDER.search(text, max(0, start - 60), end + 40)),
    )


def _in_words(match: re.Match[str], value: int) -> Number:
    unit = _UNIT_OF.get((match["unit"] or "").lower(), "")
    end = match.end() if unit else max(match.end(group) for group in ("tens", "ones", "small"))
    text = match.string[match.start() : end]
    return Number(text=text, readings=(Decimal(value),), unit=unit, start=match.start())


def _is_currency(char: str) -> bool:
    return unicodedata.category(char) == "Sc"
