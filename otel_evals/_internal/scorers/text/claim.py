"""A fact that a text states: a number, a date, a time, an identifier or a name."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import takewhile
from typing import Literal

Day = tuple[int | None, int, int | None]
"""Year, month, day; None if not written."""
Time = tuple[int, int]
"""Hour (0 to 23) and minute."""

_FUNCTION_WORDS = """a an and are as at be but by due for from had has have her his in into is its just last
least more most next of on only or other others our out over per so than that the their them then there they
this to was we were when where which while who will with within would you your"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that name nothing."""


@dataclass(frozen=True, slots=True)
class Claim:
    kind: Literal["number", "date", "time", "identifier", "name"]
    text: str
    """As written, a number with its currency or unit."""
    start: int
    days: tuple[Day, ...] = ()
    """Possible meanings of a date."""
    times: tuple[Time, ...] = ()
    """Possible meanings of a time."""
    words: tuple[str, ...] = ()
    """A name's distinctive words, case-folded, without possessive endings."""
    gloss: str | None = None
    """The abbreviation after a name, as in Las Vegas (LAS)."""
    readings: tuple[Decimal, ...] = ()
    """Possible values of a number, with magnitude words such as `million` applied."""
    unit: str = ""
    """`money`, `%`, `c`, `f`, `second`, `minute`, `hour`, `day`, `week`, `ordinal`, `decade`, or empty."""
    parts: tuple[Decimal, ...] = ()
    """The numbers of a duration in several units."""
    things: tuple[str, ...] = ()
    """The words after a number, lower-cased: the things it counts, with their adjectives."""
    in_words: bool = False
    approximate: bool = False
    """True after about, roughly, nearly, over, ..."""
    worked_out: bool = False
    """True near words for a total, remainder, difference, saving, debt or refund."""

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    def nouns(self) -> frozenset[str]:
        """Return the singular words for what it counts or measures, up to the first function word."""
        words = takewhile(lambda word: word not in FUNCTION_WORDS, self.things)
        return frozenset(word.removesuffix("s") for word in words)

    def is_year(self) -> bool:
        """Return True for four digits within 1000..2099."""
        return not self.unit and len(self.text) == 4 and 1000 <= self.readings[0] < 2100

    def is_count(self) -> bool:
        """Return True for a whole number that may count things."""
        return bool(self.readings) and not self.unit and not self.is_year() and self.readings[0] % 1 == 0
