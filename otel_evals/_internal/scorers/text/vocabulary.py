"""The words of a text, looked up in any form.

Forms are plurals and possessives, accents, hyphens, adjectives of places (Turkey, Turkish), codes of states
(Texas, TX), and abbreviations in either direction (Western Australia, WA).
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from otel_evals._internal.scorers.bounds import pieces
from otel_evals._internal.scorers.text.claim import FUNCTION_WORDS

_NEAR, _LONGEST = 60, 30
_WORD = re.compile(r"[^\W\d_]+")
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
        self._pieces = [piece for _, piece in pieces(text)]

    def has(self, word: str) -> bool:
        """Look up a word in any form."""
        word = bare(word)
        return not self.words.isdisjoint(_forms(word)) or self._derived(word)

    def has_name(self, words: Sequence[str]) -> bool:
        """Look up all words of a name, or their initials as an abbreviation."""
        parts = [part for word in words for part in re.split("['-]", word) if len(part) > 1]
        initials = "".join(bare(word)[:1] for word in words)
        return all(map(self.has, parts)) or initials in self._abbreviations

    def has_abbreviation(self, written: str) -> bool:
        """Return True if consecutive words begin with the letters of an abbreviation in capitals."""
        letters = bare(re.sub("[.'-]", "", written.removesuffix("'s")))
        # One capital may be only the beginning of a sentence or a name.
        if sum(map(str.isupper, written)) < 2:
            return False
        # Two letters begin some words of any text: these need capitals.
        rows = self._rows if len(letters) >= _CHANCE else self._rows[2:]
        return any(letters in row for row in rows)

    @cached_property
    def words(self) -> frozenset[str]:
        """All words, bare; dotted words also without dots."""
        # The pattern of words splits U.S. into two letters.
        dotted = (word.replace(".", "") for word in self._matches(_DOTTED))
        return frozenset(map(bare, (*self._matches(_WORD), *dotted)))

    def _matches(self, pattern: re.Pattern[str]) -> Iterator[str]:
        return (word for piece in self._pieces for word in pattern.findall(piece))

    def _derived(self, word: str) -> bool:
        """Return True if a word belongs to a place that is named, or is the place of a word that is."""
        if _CODE_OF.get(word) in self._abbreviations or _NAME_OF.get(word) in self.words:
            return True
        if not self._capitalised.isdisjoint(_GROUP.get(word, ())):
            return True
        # By their first letters: comparing each pair of words would take too long.
        return any(_related(word, other) for other in self._by_stem.get(word[:_STEM], ()))

    @cached_property
    def _capitalised(self) -> frozenset[str]:
        """The words with a capital, and all words of sentences in a text without any."""
        found: set[str] = set()
        for line in (line for piece in self._pieces for line in piece.splitlines()):
            has_none = line.islower() and line.count(" ") >= _SENTENCE
            found.update(word for word in _WORD.findall(line) if has_none or word[0].isupper())
        return frozenset(map(bare, found))

    @cached_property
    def _by_stem(self) -> Mapping[str, Sequence[str]]:
        stems: defaultdict[str, list[str]] = defaultdict(list)
        for word in self._capitalised:
            stems[word[:_STEM]].append(word)
        return dict(stems)

    @cached_property
    def _abbreviations(self) -> frozenset[str]:
        words = (word.replace(".", "") for word in (*self._matches(_WORD), *self._matches(_DOTTED)))
        return frozenset(bare(word) for word in words if word.isupper() and len(word) in _ABBREVIATION)

    @cached_property
    def _rows(self) -> tuple[str, str, str]:
        """First letters in a row: of all words, of those that abbreviations keep, of these with a capital."""
        words = [(bare(word), word[0].isupper()) for word in self._matches(_WORD)]
        kept = [(word, capital) for word, capital in words if word not in _SKIPPED]
        # A blank for each other word, which no abbreviation matches across.
        capitals = "".join(word[:1] if capital else " " for word, capital in kept)
        return "".join(word[:1] for word, _ in words), "".join(word[:1] for word, _ in kept), capitals


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
    """Yield a word, and its singular and plural as far as English endings show them."""
    yield word + "s"
    # `ern` as in northern. Most words end in none of these, and stay as they are.
    yield from (word.removesuffix(ending) for ending in ("s", "es", "ern"))
    yield re.sub("ies$", "y", word)


def _related(word: str, other: str) -> bool:
    """Return True if two words with the same beginning are a place and its adjective or people."""
    shared = (n for n in range(_STEM, min(len(word), len(other)) + 1) if word[:n] == other[:n])
    # The place and its people share a beginning, and differ in known endings.
    ends = ((word[n:], other[n:]) for n in shared)
    return any((a in _PLACE and b in _PEOPLE) or (b in _PLACE and a in _PEOPLE) for a, b in ends)
