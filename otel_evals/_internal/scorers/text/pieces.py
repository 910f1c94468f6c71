"""Works in portions: regular expressions, sorting and Unicode normalization hold the interpreter's lock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from heapq import merge
from itertools import islice

_LONGEST = 16_384
_SEARCHED = 256
_BREAK = re.compile(r"\s\S*\Z")


def pieces(text: str, longest: int = _LONGEST) -> Iterator[tuple[int, str]]:
    """Yield the start and text of each piece, cut before white space if there is any near the end."""
    start = 0
    while start < len(text):
        end = start + longest
        if end < len(text):
            blank = _BREAK.search(text, max(start + 1, end - _SEARCHED), end)
            end = blank.start() if blank else end
        yield start, text[start:end]
        start = end


def in_order(numbers: Iterable[Decimal], longest: int = 2_048) -> tuple[Decimal, ...]:
    """Sort numbers in portions."""
    source = iter(numbers)
    portions = []
    while portion := sorted(islice(source, longest)):
        portions.append(portion)
    return tuple(merge(*portions))
