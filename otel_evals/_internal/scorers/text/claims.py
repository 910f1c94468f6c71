"""The checkable claims of an answer: numbers, dates, times, identifiers and names."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from html import unescape

from otel_evals._internal.scorers.bounds import pieces
from otel_evals._internal.scorers.text.claim import Claim
from otel_evals._internal.scorers.text.dates import dates_in, times_in
from otel_evals._internal.scorers.text.names import names_in
from otel_evals._internal.scorers.text.numbers import numbers_in, with_context

# Replaces earlier claims: for patterns it is neither a letter nor a digit nor white space.
_TAKEN = "\x00"
_FOLDED_AT_ONCE = 4_096  # some characters are eighteen in NFKC
_SEPARATORS: dict[int, int | str | None] = {
    **str.maketrans(
        "\u066b\u066c\u2010\u2011\u2013\u2212\u2018\u2019\u02bc\u00b4\u2032\uff07",
        ".,----" + 6 * "'",
        "\u200b\u00ad\ufeff",
    ),
    # NFKC makes 21/2 of 2½.
    0xBC: ".25",
    0xBD: ".5",
    0xBE: ".75",
    0x2153: ".333",
    0x2154: ".667",
    0x215B: ".125",
}

# Units, ordinals and abbreviations that make a digit-and-letter token a number or a word, not an identifier.
_SUFFIX = (
    r"(?:st|nd|rd|th|s|k|m|mn|b|bn|x|am|pm|kg|g|mg|km|m|cm|mm|mi|ft|in|lbs?|oz|ml|l|c|f|[kmgt]b|kwh?|w|v|hz|"
    r"[kmg]hz|ms|sec|mins?|h|hrs?|d|p|px|usd|eur|gbp|°[cf])"
)
_NOT_IDENTIFIER = re.compile(
    # 1.2.3 is a version, and 1.234.567 a number.
    rf"(?!(?!\d+(?:\.\d{{3}})+$)\d+(?:\.\d+){{2,}}$)\d[\d.,'/:-]*{_SUFFIX}?|"
    r"(?:\d[\d.,]*-)+[^\W\d_]+(?:-[^\W\d_]+)*|\d+(?:st|nd|rd|th)-[^\W\d_]+|"
    r"(?:mid|pre|post|sub|non|under|over|top|up)-\d+s?|"
    r"p?t?(?:\d+[dhms])+|covid-19|b2[bc]|[234]fa|h2o|mp[34]|[1-8]k|q[1-4]|[1-6]g",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"(?:https?://|www\.)[^\s<>()\[\]\"'`|]+|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+", re.IGNORECASE
)
_PHONE = re.compile(
    r"\+\d[\d ().-]{7,18}\d|\(\d{3}\) ?\d{3}[-. ]\d{4}|\b\d{3}[-.]\d{3}[-.]\d{4}\b|"
    # Card numbers, French telephone numbers, IBANs
    r"\b\d{4}(?: \d{4}){3}\b|\b0\d(?: \d\d){4}\b|\b[A-Z]{2}\d\d(?: [A-Z\d]{4}){2,7}(?: [A-Z\d]{1,4})?\b"
)
# A full stop before a capital ends a sentence: in 2015.Defeat.
_TOKEN = re.compile(r"#?[^\W_]+(?:(?:[-_/:#]|\.(?![A-Z][a-z]))[^\W_]+)*", re.ASCII)
_CODE = re.compile(
    r"\b(?i:id|number|no|code|reservation|order|booking|ticket|tracking|reference|ref|sku|invoice|confirmation)"
    r"\b[^\w\n]{0,8}(?i:(?:is|are)\b[^\w\n]{0,8})?(?P<code>[A-Z]{5,12})\b(?! ?[A-Z]{2})"
)
_DIGIT = re.compile(r"\d")
_EXAMPLE = re.compile(r"\((?:e\.g\.|for example|for instance|such as|like)[^()]*\)", re.IGNORECASE)
_SCALE = re.compile(r"(?<![/-]\d)(?<![/-]\d\d)(?<=\d)(?:/| / | out of )(?:5|10|100)\b(?![./,-]?\d| ?%)")
_MARKUP = re.compile(r"(?m)^[ \t]*(?:#{1,6}[ \t]+|>[ \t]?|[-*+•][ \t]+)|[*`]+|~~|(?<!\w)_+|_+(?!\w)|\|")
_NUMBERING = re.compile(
    r"(?m)^([ \t]*(?:[-*+][ \t]+|#{1,6}[ \t]+)?[*_]{0,2})"
    r"((?:\d{1,2}\.)*(?:\d{1,3}|[a-z])[.)]|(?:\d{1,2}\.){2,}\d{1,2}|(?<=# )(?:\d{1,2}\.)+\d{1,2})(?=[ \t*])"
)
_ITEM = re.compile(r"(?m)^[ \t]*(?:[-*+•]|\d{1,3}[.)])[ \t]+\S")


def fold(text: str, limit: int = sys.maxsize) -> str:
    """Normalise spelling: NFKC, plain hyphens and apostrophes, no HTML entities; cut off at `limit`."""
    folded, length = [], 0
    for _, piece in pieces(text, _FOLDED_AT_ONCE):
        plainer = unescape(piece).translate(_SEPARATORS)
        # Again: NFKC splits some of these characters, and other characters become one of them.
        folded.append(unicodedata.normalize("NFKC", plainer).translate(_SEPARATORS))
        length += len(folded[-1])
        if length >= limit:
            break
    return "".join(folded)[:limit]


def plain(text: str) -> str:
    """Blank out markdown, list numbering, examples in brackets and scales (4 out of 5)."""
    # Blanks of equal length keep the positions of all claims valid.
    for aside in (_EXAMPLE, _SCALE):
        text = aside.sub(lambda m: " " * len(m[0]), text)
    text = _NUMBERING.sub(lambda m: m[1] + " " * len(m[2]), text)
    return _MARKUP.sub(lambda m: " " * len(m[0]), text)


def list_items(text: str) -> set[int]:
    """Return the number of items of each list in a text, and their total."""
    runs = [len(_ITEM.findall(block)) for block in re.split(r"\n[ \t]*\n", text)]
    numbered = [int(n) for n in re.findall(r"(?m)^[ \t]*(\d{1,3})[.)][ \t]", text)]
    return {n for n in (*runs, *numbered, sum(runs)) if n}


def claims_in(answer: str) -> tuple[Claim, ...]:
    """Return the claims of an answer in order; each character belongs to at most one claim."""
    finders = (*_OPAQUE, _numbers, names_in)
    return tuple(claim for piece in _each_piece(fold(answer), plain, finders) for claim in piece[1])


def mask(text: str) -> tuple[str, list[Claim]]:
    """Blank out the links, dates, times and identifiers of a folded text, and return them."""
    taken = list(_each_piece(text, str, _OPAQUE))
    return "".join(masked for masked, _ in taken), [claim for _, claims in taken for claim in claims]


def _each_piece(
    text: str, prepare: Callable[[str], str], finders: Iterable[Callable[[str], Iterator[Claim]]]
) -> Iterator[tuple[str, list[Claim]]]:
    for offset, piece in pieces(text):
        left, claims = _take(prepare(piece), finders)
        yield left, [replace(c, start=c.start + offset) for c in sorted(claims, key=lambda c: c.start)]


def identifier_pattern(identifier: str) -> re.Pattern[str]:
    """Return a pattern for an identifier in folded, case-folded text with any separators: A-1001, a1001."""
    # A version may have a v or not.
    chunks = re.findall(r"(?!\Av\d+\.)[^\W\d_]+|\d+", identifier.casefold())
    # A phone number may lack the code of its country. The separators of a link are up to three: `://`.
    before = r"(?:\+\d{1,3}[\W_]{0,3}|v)?" if "".join(chunks).isdigit() else ""
    parts = r"[\W_]{0,3}".join(map(re.escape, chunks))
    return re.compile(rf"(?<![^\W_]){before}{parts}(?![^\W_])")


def _links(text: str) -> Iterator[Claim]:
    # Most texts have no link, and the search for one is slow.
    patterns = (_LINK, _PHONE) if "://" in text or "@" in text or "www." in text else (_PHONE,)
    for pattern in patterns:
        for match in pattern.finditer(text):
            yield Claim("identifier", match[0].rstrip(".,;:!?'"), match.start())


def _identifiers(text: str) -> Iterator[Claim]:
    for match in _TOKEN.finditer(text):
        token = match[0]
        if _DIGIT.search(token) and not _NOT_IDENTIFIER.fullmatch(token.lstrip("#")):
            yield Claim("identifier", token, match.start())
    for match in _CODE.finditer(text):
        yield Claim("identifier", match["code"], match.start("code"))


def _numbers(text: str) -> Iterator[Claim]:
    return (with_context(number, text) for number in numbers_in(text))


# Each finder sees what earlier ones left: the digits of a date are no number.
_OPAQUE = (_links, dates_in, times_in, _identifiers)


def _take(text: str, finders: Iterable[Callable[[str], Iterator[Claim]]]) -> tuple[str, list[Claim]]:
    """Run the finders in order; each sees the text that earlier ones left."""
    claims: list[Claim] = []
    for find in finders:
        pieces, done = [], 0
        # Of two claims at one place, the longer one is meant.
        for claim in sorted(find(text), key=lambda c: (c.start, -len(c.text))):
            # A pattern may match across the place of an earlier claim.
            if claim.start >= done and _TAKEN not in claim.text:
                claims.append(claim)
                pieces += [text[done : claim.start], _TAKEN * len(claim.text)]
                done = claim.end
        text = "".join((*pieces, text[done:]))
    return text, claims
