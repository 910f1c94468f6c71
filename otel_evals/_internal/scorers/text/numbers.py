"""Numbers as people write them: 1,234.50 and 1.234,50, $49.90, 22 °C, 50%, 1.2 million, twenty-five.

Numbers are often ambiguous (`1.234` may be a thousand or a bit more than one), so each keeps all its
readings. Signs are ignored: a refund of -20 is a refund of 20.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from operator import mul

from otel_evals._internal.scorers.text.claim import Claim

SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}

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
# A billion of other languages may be a million of millions, and `mil` is a thousand in two of them.
_MAGNITUDES = {
    12: "tn|trillion",
    9: "b|bn|bln|billion|mrd|milliarden?|milliards?|miliard[oi]|bilh(?:ão|ões)|млрд|миллиарда?",
    8: "亿|億",
    6: "m|mn|mil|mln|millions?|mio|millionen|mill(?:ón|ones)|milion[ei]|milh(?:ão|ões)|млн|миллион\\w{0,2}",
    4: "万|萬",
    3: "k|thousand|tausend|tsd|mila?|mille|тыс|тысяч[аи]?",
}
# Groups of three parted by a space are read as one number only where cents or a currency follow.
_SPACED = r"\d{1,3}(?:[ \u202f]\d{3})+(?=,\d\d(?!\d)|[ ]?[€₽]|[ ]?(?:EUR|zł|kr|Kč)\b)(?:,\d\d)?"
_CURRENCY = "[$\u00a2-\u00a5\u058f\u060b\u07fe\u07ff\u09f2\u09f3\u09fb\u0af1\u0bf9\u0e3f\u17db\u20a0-\u20cf]"
_NUMBER = re.compile(
    rf"""(?<![A-Za-z\d])(?<!covid-)(?P<digits>{_SPACED}|(?:(?<![^\s$€£<=>~(])\.)?\d+(?:[.,'\u202f]\d+)*)
    (?:[ -]?(?P<magnitude>[万萬亿億]|(?:{"|".join(_MAGNITUDES.values())})\b))?
    (?:[ -]?(?P<unit>°\s?[CF]\b|[°%]|[^\W\d_]+)|[ ]?(?P<sign>{_CURRENCY}))?""",
    re.VERBOSE | re.IGNORECASE,
)
_DURATION = re.compile(
    r"""(?<![\w.,:/-])(?=P?T?\d)P?
    (?:(\d{1,6})[ -]?d(?:ays?)?)?
    (?:(?:T|,?[ ]?(?:(?:and|&)[ ])?)(\d{1,6})[ -]?h(?:(?:ou)?rs?)?)?
    (?:(?:T|,?[ ]?(?:(?:and|&)[ ])?)(\d{1,6})[ -]?m(?:in(?:ute)?s?)?)?
    (?:(?:T|,?[ ]?(?:(?:and|&)[ ])?)(\d{1,6})[ -]?s(?:ec(?:ond)?s?)?)?
    (?!\w)""",
    re.VERBOSE | re.IGNORECASE,
)
_YEAR_BEFORE = re.compile(r"(?<!\d)(1[5-9]|20)\d\d ?[/-] ?\Z")
_DECADE = re.compile(r"\d{3,}0s")
"""1990s, but not 30s or 30 s, which are seconds."""
_QUARTER = re.compile(r"(?<!\w)Q([1-4])(?!\w)")
_THINGS = re.compile(r"(?:[ -][^\W\d_]{1,30}){1,3}")
_BEFORE = re.compile(
    rf"(?:{_CURRENCY}|\b(?:USD|EUR|GBP|CHF|JPY|CAD|AUD|INR|CNY|RUB|PLN))[ ]?$", re.IGNORECASE
)
_APPROXIMATELY = re.compile(
    r"(?:\b(?:about|around|approximately|approx\.?|roughly|nearly|almost|over|under|more than|less than|"
    r"circa|ca\.)|[~≈<]|(?<![\w\"'/])>)\s*\W?$",  # not the end of a tag: <b>
    re.IGNORECASE,
)
_WORKED_OUT = re.compile(
    r"\b(?:remain|left|balance|differ|refund|sav(?:e|ing)|owe|additional|extra|change|total|sum\b|altogether|"
    r"combined|together)",
    re.IGNORECASE,
)


def readings(digits: str) -> tuple[Decimal, ...]:
    """Return the possible values of digits and separators; empty for 1.2.3 or endless numbers."""
    if len(digits) > _MAX_DIGITS:
        return ()
    digits = re.sub("['\u202f ]", "", digits)
    marks = re.findall("[.,]", digits)
    groups = re.split("[.,]", digits)
    if not marks:
        return (Decimal(digits),)
    # Equal marks separate thousands, decimals, or possibly either.
    if len(set(marks)) == 1:
        # Inner groups of two digits are Indian: 1,00,000.
        grouped = all(len(g) in (2, 3) for g in groups[1:-1]) and len(groups[-1]) == 3 and len(groups[0]) <= 3
        whole = (Decimal("".join(groups)),) if grouped else ()
        return whole + ((Decimal(".".join(groups)),) if len(marks) == 1 else ())
    # With both marks, the last one is the decimal mark, and all others separate thousands.
    if marks.count(marks[-1]) > 1 or len(set(marks[:-1])) > 1:
        return ()
    return (Decimal("".join(groups[:-1]) + "." + groups[-1]),)


def numbers_in(text: str) -> Iterator[Claim]:
    """Yield the numbers of a text, in digits of any script or in English words from two on."""
    for match in _NUMBER.finditer(text):
        values = readings(match["digits"])
        if values:
            yield _in_digits(text, match, values)
    yield from _durations_in(text)
    for match in _QUARTER.finditer(text):
        yield Claim("number", match[0], match.start(), readings=(Decimal(match[1]),), unit="ordinal")
    for value, start, end in _word_numbers_in(text):
        if value > 1:
            yield _in_words(text, value, start, end)


def _in_digits(text: str, match: re.Match[str], values: tuple[Decimal, ...]) -> Claim:
    magnitude = (match["magnitude"] or "").lower()
    powers = [
        power for power, words in _MAGNITUDES.items() if magnitude and re.fullmatch(words, magnitude)
    ] or [0]
    unit = _UNIT_OF.get((match["unit"] or "").replace(" ", "").lower(), "")
    if _DECADE.fullmatch(match[0]):
        unit = "decade"
    # The words after a number belong to the claim only if they are its unit or magnitude.
    start, end = match.start(), match.end("unit" if unit else "magnitude" if magnitude else "digits")
    # Five characters have room for a currency's code and a blank.
    before = _BEFORE.search(text, max(0, start - 5), start)
    if before:
        start, unit = before.start(), "money"
    elif match["sign"]:
        end, unit = match.end(), "money"
    return Claim(
        "number",
        text[start:end],
        start,
        readings=(*(value.scaleb(power) for value in values for power in powers), *_second_year(text, match)),
        unit=unit,
        things=_things(text, match.end("magnitude" if magnitude else "digits")),
    )


def _second_year(text: str, match: re.Match[str]) -> Iterator[Decimal]:
    """Yield the 2012 of 2011/12."""
    first = _YEAR_BEFORE.search(text, max(0, match.start() - 8), match.start())
    if first and len(match["digits"]) == 2:
        yield Decimal(first[1] + match["digits"])


def _durations_in(text: str) -> Iterator[Claim]:
    """Yield the durations in several units, in seconds: 2 hours and 30 minutes, 2h 30m, PT2H30M."""
    for match in _DURATION.finditer(text):
        values = tuple(map(Decimal, match.groups("0")))
        parts = tuple(filter(None, values))
        if len(parts) > 1 or match[0][0] in "Pp":
            total = Decimal(sum(map(mul, values, (86_400, 3600, 60, 1))))
            yield Claim("number", match[0], match.start(), readings=(total,), unit="second", parts=parts)


def with_context(number: Claim, text: str) -> Claim:
    """Set `approximate` and `worked_out` from the words around a number."""
    return replace(
        number,
        approximate=bool(_APPROXIMATELY.search(text, max(0, number.start - 20), number.start)),
        worked_out=bool(_WORKED_OUT.search(text, max(0, number.start - 60), number.end + 40)),
    )


def _in_words(text: str, value: Decimal, start: int, end: int) -> Claim:
    things = _things(text, end)
    unit = _UNIT_OF.get(things[0], "") if things else ""
    if unit:
        end += 1 + len(things[0])
    return Claim("number", text[start:end], start, readings=(value,), unit=unit, in_words=True, things=things)


def _things(text: str, end: int) -> tuple[str, ...]:
    match = _THINGS.match(text, end)
    return tuple(re.split("[ -]", match[0].lower())[1:]) if match else ()


# --- in words: twenty-five, two hundred and ten thousand, nineteen ninety-five, a dozen ---

WordNumber = tuple[Decimal, int, int]
"""Value, start and end."""

_ONES = "one two three four five six seven eight nine"
_TEENS = "eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "ten twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {word: value for value, word in enumerate(f"zero {_ONES} ten {_TEENS}".split())}
_VALUES |= {"a": 1, **{word: 10 * tens for tens, word in enumerate(_TENS.split(), 1)}}
_SCALES = {"dozen": 12, "hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"""
_RANKS = {word: rank for rank, word in enumerate(_ORDINALS.split(), 1)}


def _any(words: str) -> str:
    return f"(?:{'|'.join(words.split())})"


# `ten` is not combined with ones, unlike twenty and the other tens.
_TWO_DIGITS = rf"(?:{_any(_TENS.removeprefix('ten '))}[ -]{_any(_ONES)}|{_any(f'{_TENS} {_TEENS}')})"
_BELOW_HUNDRED = rf"(?:{_TWO_DIGITS}|{_any(f'zero {_ONES}')})"
_SCALE = _any("hundred thousand million billion")
# `a` is a number before a scale only: a hundred, but not a dog.
_IN_WORDS = re.compile(
    rf"""\b(?:{_any(f"twenty {_TEENS}")}[ -]{_TWO_DIGITS}\b  # a year
    | (?:{_BELOW_HUNDRED}\b|a(?=[ ](?:{_SCALE}|dozen)\b))
      (?:[ -]dozen\b|(?:[ -]{_SCALE}\b(?:(?:[ -]|[ ]and[ ]){_BELOW_HUNDRED}\b)?){{0,6}}))
    (?P<half>[ ]and[ ]a[ ]half\b)?""",
    re.VERBOSE | re.IGNORECASE,
)
_RANK = re.compile(rf"\b{_any(_ORDINALS)}\b", re.IGNORECASE)
_HALF = Decimal("0.5")


def _word_numbers_in(text: str) -> Iterator[WordNumber]:
    """Yield the numbers of a text in words, one and zero too."""
    for match in _IN_WORDS.finditer(text):
        value = Decimal(_value(match[0].removesuffix(match["half"] or "")))
        yield value + _HALF if match["half"] else value, match.start(), match.end()


def ordinals_in(text: str) -> Iterator[int]:
    """Yield the ranks of a text in words: 3 for third."""
    return (_RANKS[match[0].lower()] for match in _RANK.finditer(text))


def _value(number: str) -> int:
    total = part = 0
    for word in re.findall("[a-z]+", number.lower()):
        value = _VALUES.get(word, 0)
        if word in ("dozen", "hundred"):
            part = max(1, part) * _SCALES[word]
        elif word in _SCALES:
            total += max(1, part) * _SCALES[word]
            part = 0
        elif 10 < part <= 20 and value >= 10:  # nineteen ninety-five
            part = part * 100 + value
        else:
            part += value
    return total + part
