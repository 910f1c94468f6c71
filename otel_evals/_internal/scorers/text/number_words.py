"""English numbers in words: twenty-five, two hundred and ten thousand, nineteen ninety-five, a dozen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

WordNumber = tuple[Decimal, int, int]
"""Value, start and end."""

_ONES = "zero one two three four five six seven eight nine"
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_VALUES = {word: i for i, word in enumerate(f"{_ONES} {_TEENS}".split())}
_VALUES |= {word: 10 * tens for tens, word in enumerate(_TENS.split(), 2)}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
_ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth
fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"""
_RANKS = {word: rank for rank, word in enumerate(_ORDINALS.split(), 1)}

_WORD = re.compile(rf"\b(?:{'|'.join([*_VALUES, *_SCALES, 'dozen'])})\b", re.IGNORECASE)
_RANK = re.compile(rf"\b(?:{'|'.join(_RANKS)})\b", re.IGNORECASE)
_HALF = re.compile(r" and a half\b", re.IGNORECASE)
_ARTICLE = re.compile(r"\ba $", re.IGNORECASE)
_GAPS = frozenset([" ", "-", " and "])
_MAX_WORDS = 12


def word_numbers_in(text: str) -> Iterator[WordNumber]:
    """Yield the numbers of a text in words, one and zero too."""
    group: list[re.Match[str]] = []
    for match in _WORD.finditer(text):
        if group and not _continues(group, text[group[-1].end() : match.start()], match):
            yield from _number(group)
            group = []
        group.append(match)
    if group:
        yield from _number(group)


def ordinals_in(text: str) -> Iterator[int]:
    """Yield the ranks of a text in words: 3 for third."""
    return (_RANKS[match[0].lower()] for match in _RANK.finditer(text))


def _continues(group: list[re.Match[str]], gap: str, match: re.Match[str]) -> bool:
    """Return True if a word belongs to the number before it: hundred after two, five after twenty."""
    if gap not in _GAPS or len(group) >= _MAX_WORDS:
        return False
    last, word = group[-1][0].lower(), match[0].lower()
    if word in _SCALES or word == "dozen":
        return gap != " and " and last != "dozen"
    if last in _SCALES:
        return True
    if gap == " and " or last == "dozen":
        return False
    return (_VALUES[last] >= 20 and 0 < _VALUES[word] < 10) or _is_century(group, word)


def _is_century(group: list[re.Match[str]], word: str) -> bool:
    """Return True if two numbers form a year, as in nineteen ninety-five."""
    return len(group) == 1 and 10 < _VALUES[group[0][0].lower()] <= 20 and _VALUES[word] >= 10


def _number(group: list[re.Match[str]]) -> Iterator[WordNumber]:
    start, first = group[0].start(), group[0][0].lower()
    if first in _SCALES or first == "dozen":
        # `a hundred` is a number, `hundred` alone comes from elsewhere: 3 hundred, per hundred.
        article = _ARTICLE.search(group[0].string, max(0, start - 2), start)
        if article is None:
            return
        start = article.start()
    value, end = Decimal(_value([match[0].lower() for match in group])), group[-1].end()
    half = _HALF.match(group[0].string, end)
    yield (value + Decimal("0.5"), start, half.end()) if half else (value, start, end)


def _value(words: list[str]) -> int:
    total = part = 0
    for i, word in enumerate(words):
        if word == "dozen":
            part = max(1, part) * 12
        elif word == "hundred":
            part = max(1, part) * 100
        elif word in _SCALES:
            total += max(1, part) * _SCALES[word]
            part = 0
        elif i == 1 and words[0] not in _SCALES and _VALUES[words[0]] <= 20 and _VALUES[word] >= 10:
            part = part * 100 + _VALUES[word]
        else:
            part += _VALUES[word]
    return total + part
