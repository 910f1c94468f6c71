"""English numbers in words: twenty-five, two hundred and ten thousand, nineteen ninety-five, a dozen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

WordNumber = tuple[Decimal, int, int]
"""Value, start and end."""

_ONES = "one two three four five six seven eight nine"
_TEENS = "eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "ten twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {"zero": 0, "a": 1}
_VALUES |= {word: value for value, word in enumerate(_ONES.split(), 1)}
_VALUES |= {word: value for value, word in enumerate(_TEENS.split(), 11)}
_VALUES |= {word: 10 * tens for tens, word in enumerate(_TENS.split(), 1)}
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
_NUMBER = re.compile(
    rf"""\b(?:{_any(f"twenty {_TEENS}")}[ -]{_TWO_DIGITS}\b  # a year
    | (?:{_BELOW_HUNDRED}\b|a(?=[ ](?:{_SCALE}|dozen)\b))
      (?:[ -]dozen\b|(?:[ -]{_SCALE}\b(?:(?:[ -]|[ ]and[ ]){_BELOW_HUNDRED}\b)?){{0,6}}))
    (?P<half>[ ]and[ ]a[ ]half\b)?""",
    re.VERBOSE | re.IGNORECASE,
)
_RANK = re.compile(rf"\b{_any(_ORDINALS)}\b", re.IGNORECASE)
_HALF = Decimal("0.5")


def word_numbers_in(text: str) -> Iterator[WordNumber]:
    """Yield the numbers of a text in words, one and zero too."""
    for match in _NUMBER.finditer(text):
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
