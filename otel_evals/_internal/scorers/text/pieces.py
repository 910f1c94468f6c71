"""Work in portions, so that no single call of C code keeps other threads waiting.

Regular expressions, sorting and Unicode normalization hold the interpreter's lock until they are done, and
what they are given here was written by strangers.
"""

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
    """A text in pieces and where each begins, cut before white space where there is any near the end."""
    start = 0
    while start < len(text):
        end = start + longest
        if end < len(text):
            blank = _BREAK.search(text, max(start + 1, end - _SEARCHED), end)
            end = blank.start() if blank else end
        yield start, text[start:end]
        start = end


def in_order(numbers: Iterable[Decimal], longest: int = 2_048) -> tuple[Decimal, ...]:
    """Numbers sorted, a portion at a time."""
    source = iter(numbers)
    portions = []
    while portion := sorted(islice(source, longest)):
        portions.append(portion)
    return tuple(merge(*portions))
