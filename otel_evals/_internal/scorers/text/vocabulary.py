"""The words of a text, looked up in any form.

Forms are plurals and possessives, accents, hyphens, adjectives of places (Turkey, Turkish), codes of states
(Texas, TX), and abbreviations in either direction (Western Australia, WA).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cached_property

from otel_evals._internal.scorers.bounds import pieces
from otel_evals._internal.scorers.text.claim import FUNCTION_WORDS

_NEAR, _LONGEST = 60, 30
_WORD = re.compile(r"[^\W\d_]+")
_COMPOUND = re.compile(r"(?<![^\W\d_])[^\W\d_]{1,40}(?:-[^\W\d_]{1,40}){1,6}")
_DOTTED = re.compile(r"(?:[^\W\d_]\.){2,8}|[^\W\d_](?:\.[^\W\d_]){1,8}(?![^\W\d_])")
_ABBREVIATION = range(2, 7)
_SENTENCE = 5
_CHANCE = 3
"""Letters from which an abbreviation seldom matches the beginnings of words by chance."""
_SKIPPED = frozenset(["of", "the", "and", "for", "in", "on", "de", "la", "du", "des", "del", "y", "e"])

_STEM = 4
_PLACE = frozenset(["", "a", "al", "ay", "e", "en", "ey", "ia", "ium", "o", "y"])
_PEOPLE_ENDINGS = """an ans ean eans egian egians er ers ese i ian ians ic is ish ism ist ists n ns sm uese
vian vians"""
_PEOPLE = frozenset(_PEOPLE_ENDINGS.split())
# Those whose names share no longer beginning with what comes from there.
_IRREGULAR = """
america american americans us usa
britain british briton britons uk
croatia croat croats
cyprus cypriot cypriots
czechia czech czechs
denmark danish dane danes
england english
finland finnish finn finns
france french frenchman
germany german germans
greece greek greeks
holland netherlands dutch
iceland icelandic icelander
ireland irish
kurdistan kurdish kurd kurds
philippines filipino filipinos
poland polish pole poles
rome roman romans
scotland scottish scot scots
serbia serb serbs
slovakia slovak slovaks
spain spanish spaniard spaniards
sweden swedish swede swedes
switzerland swiss
texas texan texans
thailand thai thais
turkey turkish turk turks
uzbekistan uzbek uzbeks
wales welsh
"""
_GROUP = {word: group.split() for group in _IRREGULAR.splitlines() for word in group.split()}
# Codes that are not the initials of a state's name.
_STATES = """
AL Alabama, AK Alaska, AZ Arizona, AR Arkansas, CA California, CO Colorado, CT Connecticut, DE Delaware, FL
Florida, GA Georgia, HI Hawaii, ID Idaho, IL Illinois, IN Indiana, IA Iowa, KS Kansas, KY Kentucky, LA
Louisiana, ME Maine, MD Maryland, MA Massachusetts, MI Michigan, MN Minnesota, MS Mississippi, MO Missouri,
MT Montana, NE Nebraska, NV Nevada, OH Ohio, OK Oklahoma, OR Oregon, PA Pennsylvania, TN Tennessee, TX
Texas, UT Utah, VT Vermont, VA Virginia, WA Washington, WI Wisconsin, WY Wyoming, ON Ontario, QC Quebec, AB
Alberta, MB Manitoba, SK Saskatchewan, QLD Queensland, VIC Victoria, TAS Tasmania
"""
_NAME_OF = {pair.split()[0]: pair.split()[1] for pair in _STATES.lower().split(",")}
_CODE_OF = {name: code for code, name in _NAME_OF.items()}


class Vocabulary:
    """The words of a text with its capitals."""

    def __init__(self, text: str) -> None:
        self._text = text

    def has(self, word: str) -> bool:
        """Look up a word in any form."""
        word = bare(word)
        return word in self.words or any(form in self.words for form in _forms(word)) or self._derived(word)

    def has_name(self, words: Sequence[str]) -> bool:
        """Look up all words of a name, or their initials as an abbreviation."""
        known = (self._has_part(part) for word in words for part in re.split("['-]", word) if part)
        return all(known) or (len(words) > 1 and not self._abbreviations.isdisjoint(_initials(words)))

    def has_abbreviation(self, written: str) -> bool:
        """Return True if consecutive words begin with the letters of an abbreviation in capitals."""
        letters = bare(re.sub("[.'-]", "", written.removesuffix("'s")))
        if len(letters) not in _ABBREVIATION or sum(map(str.isupper, written)) < 2:
            return False
        rows = self._rows if len(letters) >= _CHANCE else self._rows_of_capitals
        return any(letters in row for row in rows)

    @cached_property
    def words(self) -> frozenset[str]:
        """All words, bare; compounds and dotted words also without hyphens and dots."""
        joined = (re.sub("[.-]", "", word) for word in self._matches(_COMPOUND, _DOTTED))
        return frozenset(bare(word) for word in (*self._matches(_WORD), *joined))

    def _matches(self, *patterns: re.Pattern[str]) -> Iterator[str]:
        for _, piece in pieces(self._text):
            yield from (word for pattern in patterns for word in pattern.findall(piece))

    def _has_part(self, part: str) -> bool:
        return len(part) == 1 or self.has(part)

    def _derived(self, word: str) -> bool:
        """Return True if a word belongs to a place that is named, or is the place of a word that is."""
        if _CODE_OF.get(word) in self._abbreviations or _NAME_OF.get(word) in self.words:
            return True
        if not self._capitalised.isdisjoint(_GROUP.get(word, ())):
            return True
        return any(_related(word, other) for other in self._by_stem.get(word[:_STEM], ()))

    @cached_property
    def _capitalised(self) -> frozenset[str]:
        """The words with a capital, and all words of sentences in a text without any."""
        lines = (line for _, piece in pieces(self._text) for line in piece.splitlines())
        spelt = ((line, line.islower() and line.count(" ") >= _SENTENCE) for line in lines)
        words = (word for line, low in spelt for word in _WORD.findall(line) if low or word[0].isupper())
        return frozenset(bare(word) for word in set(words))

    @cached_property
    def _by_stem(self) -> dict[str, set[str]]:
        stems: dict[str, set[str]] = {}
        for word in self._capitalised:
            stems.setdefault(word[:_STEM], set()).add(word)
        return stems

    @cached_property
    def _abbreviations(self) -> frozenset[str]:
        words = (word.replace(".", "") for word in self._matches(_WORD, _DOTTED))
        return frozenset(bare(word) for word in words if word.isupper() and len(word) in _ABBREVIATION)

    @cached_property
    def _rows(self) -> tuple[str, str]:
        """The first letters of all words in a row; with and without words that abbreviations skip."""
        words = [bare(word) for word in self._matches(_WORD)]
        return "".join(w[:1] for w in words), "".join(w[:1] for w in words if w not in _SKIPPED)

    @cached_property
    def _rows_of_capitals(self) -> tuple[str]:
        """The first letters of capitalised words; a blank for any other word."""
        words = (word for word in self._matches(_WORD) if word.lower() not in _SKIPPED)
        return ("".join(bare(word)[:1] if word[0].isupper() else " " for word in words),)


def bare(word: str) -> str:
    """Case-fold a word and remove accents."""
    if word.isascii():
        return word.lower()
    decomposed = unicodedata.normalize("NFKD", word.casefold())
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def content_of(text: str) -> frozenset[str]:
    """Return the words of a text that name something, bare and singular."""
    words = (word for word in _WORD.findall(text) if 2 < len(word) <= _LONGEST)
    return frozenset(bare(word).removesuffix("s") for word in words if word.lower() not in FUNCTION_WORDS)


def words_near(text: str, start: int, end: int) -> frozenset[str]:
    """Return the content words near a position, on the same line."""
    before = text[max(0, start - _NEAR) : start].rpartition("\n")[2]
    return content_of(before + " " + text[end : end + _NEAR].partition("\n")[0])


def _forms(word: str) -> Iterator[str]:
    yield word.removesuffix("s")
    yield word.removesuffix("es")
    yield word.removesuffix("ern")
    yield word + "s"
    if word.endswith("ies"):
        yield word[:-3] + "y"


def _initials(words: Sequence[str]) -> tuple[str, str]:
    """Return the first letters of a name's words, and of the parts of its hyphenated words."""
    return "".join(bare(w)[:1] for w in words), "".join(bare(p)[:1] for w in words for p in w.split("-"))


def _related(word: str, other: str) -> bool:
    """Return True if two words with the same beginning are a place and its adjective or people."""
    shared = _STEM
    while shared <= min(len(word), len(other)) and word[:shared] == other[:shared]:
        ends = word[shared:], other[shared:]
        if (ends[0] in _PLACE and ends[1] in _PEOPLE) or (ends[1] in _PLACE and ends[0] in _PEOPLE):
            return True
        shared += 1
    return False
