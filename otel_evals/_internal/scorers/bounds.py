"""Bounds and interruptible searches, which keep hostile text from stopping the application.

A single call of a C routine holds the interpreter's lock until it returns, and some routines take time that
grows with the square of the text or worse. A scorer reads a bounded part of a text, or does not score a
longer one.
"""

from __future__ import annotations

import importlib
import math
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from heapq import merge
from itertools import islice
from typing import Any, Literal

from otel_evals._internal.model import NotScored, Run
from otel_evals._internal.scorers.kit.missing import missing
from otel_evals._internal.util.installed import extra
from otel_evals._internal.util.plain import as_text
from otel_evals.errors import ConfigError

MAX_CHARS = 200_000
"""Characters of a text that a scorer reads by default."""
_SEARCH_SECONDS = 1.0
_MAX_MARKS = 30


def unreadable(run: Run, *fields: str, most: int = MAX_CHARS) -> NotScored | None:
    """Return a NotScored for the first field that is missing or longer than `most`.

    The reason is one of `missing`, or `<field>_too_long`.
    """
    absent = missing(run, *fields)
    if absent is not None:
        return absent
    for name in fields:
        value = getattr(run, name)
        if isinstance(value, str) and len(value) > most:
            explanation = f"the {name} has {len(value)} characters; this scorer reads at most {most}"
            return NotScored(reason=f"{name}_too_long", explanation=explanation)
    return None


def composed(text: str) -> str:
    """Return a text in normal form C, with at most 30 combining marks in a row.

    As in the stream-safe text format of UAX #15: ordering marks takes time that grows with the square of
    their number.
    """
    if text.isascii():
        return text
    kept, marks = [], 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= _MAX_MARKS:
            kept.append(char)
    return unicodedata.normalize("NFC", "".join(kept))


def batches(items: Iterable[Any], size: int = 5_000) -> Iterator[list[Any]]:
    """Yield the items in lists; other threads may run between two of them."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


@dataclass(frozen=True)
class PatternSearch:
    """Searches for a user's pattern without the interpreter's lock; raises TimeoutError after a second."""

    source: str
    flags: int
    whole: bool
    compiled: Any = field(repr=False, compare=False)

    def __call__(self, text: str) -> Any:
        find = self.compiled.fullmatch if self.whole else self.compiled.search
        return find(text, concurrent=True, timeout=_SEARCH_SECONDS)


def pattern_search(
    field: str, pattern: str | re.Pattern[str], *, ignore_case: bool = False, whole: bool = False
) -> PatternSearch:
    """Compile a user's regular expression.

    Raises:
        ConfigError: `pattern` is no regular expression, or the regex library is not installed.
    """
    library = extra_library("regex", field)
    source, flags = (pattern, 0) if isinstance(pattern, str) else (pattern.pattern, pattern.flags)
    # A pattern with re.DEBUG is printed when it is compiled.
    flags = (flags & ~re.DEBUG) | (re.IGNORECASE if ignore_case else 0)
    try:
        # By `re` too: regex accepts more than Python's syntax, which users expect here.
        re.compile(source, flags)
        return PatternSearch(source, flags, whole, library.compile(source, flags))
    except (re.error, library.error) as error:
        raise ConfigError(field, f"is not a regular expression: {error}") from error


Reference = Literal["input", "ground_truth"]


def compared(run: Run, reference: Reference, most: int = MAX_CHARS) -> tuple[str, str] | NotScored:
    """Return the reference and the answer in normal form C, or the reason why one cannot be read."""
    absent = unreadable(run, reference, "output", most=most)
    if absent is not None:
        return absent
    expected = as_text(getattr(run, reference))
    # `unreadable` measures texts only, and an expected answer may be an object.
    if len(expected) > most:
        return NotScored(reason=f"{reference}_too_long", explanation=f"more than {most} characters")
    return composed(expected), composed(run.output or "")


def round_half_up(value: float) -> float:
    """Round to two decimals, halves up: 0.125 becomes 0.13, 2.675 becomes 2.68."""
    # 2.675 is stored as slightly less than that: the added epsilon makes up for it.
    return math.floor((value + 2.220446049250313e-16) * 100 + 0.5) / 100


def check_range(field: str, value: float, low: float = 0.0, high: float = math.inf) -> float:
    """Return `value`; raise ConfigError if it is out of bounds."""
    if not low <= value <= high:
        bounds = f"within {low:g}..{high:g}" if high < math.inf else f"at least {low:g}"
        raise ConfigError(field, f"must be {bounds}, not {value!r}")
    return value


def check_list(field: str, items: Any) -> Any:
    """Return `items`; raise ConfigError for a text, whose letters would be the items, or what has none."""
    if isinstance(items, str) or not isinstance(items, Iterable):
        raise ConfigError(field, f"must be a list, not {type(items).__name__}")
    return items


def extra_library(module: str, scorer_id: str, library: str | None = None) -> Any:
    """Import a module of the extra `text`, or of a library; raise ConfigError if it is not installed."""
    with extra("text", scorer_id, package=library):
        return importlib.import_module(module)


def built(value: Any, options: Mapping[str, Any] | None, field: str) -> Any:
    """Return an object as it is, or create one from a class given as `package.module:name`."""
    if not isinstance(value, str):
        if options:
            raise ConfigError(f"{field}.options", "only go with a class that is given by name")
        return value
    module, _, name = value.partition(":")
    try:
        return getattr(importlib.import_module(module), name)(**(options or {}))
    except Exception as error:  # such as a missing key of its judge
        raise ConfigError(field, f"{value!r} cannot be made: {error}") from error


# --- portions ---

_LONGEST_PIECE = 16_384
_SEARCHED = 256
_BREAK = re.compile(r"\s\S*\Z")


def pieces(text: str, longest: int = _LONGEST_PIECE) -> Iterator[tuple[int, str]]:
    """Yield the start and text of each piece, cut before white space if there is any near the end."""
    start = 0
    while start < len(text):
        end = start + longest
        if end < len(text):
            # From the second character: a cut before the first would yield empty pieces for ever.
            blank = _BREAK.search(text, max(start + 1, end - _SEARCHED), end)
            end = blank.start() if blank else end
        yield start, text[start:end]
        start = end


def in_order(numbers: Iterable[Decimal], longest: int = 2_048) -> tuple[Decimal, ...]:
    """Sort numbers in portions."""
    # merge is written in Python: other threads can run while it works.
    return tuple(merge(*map(sorted, batches(numbers, longest))))
