"""Names, recognised by their capitals: Omar Davis, Ocean Breeze Hotel, Memphis, FedEx, DHL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otel_evals._internal.scorers.text.claim import Claim

_WORD = re.compile(
    r"(?:[^\W\d_]\.){2,8}|[^\W\d_](?:\.[^\W\d_]){1,8}(?![^\W\d_])|[^\W\d_]\.(?= )|[^\W\d_]+(?:['-][^\W\d_]+)*"
)
_GLOSS = re.compile(r" ?\(([A-Z0-9]{2,6})\)")
_LINKING = frozenset(["of", "de", "del", "della", "la", "van", "von", "der", "den", "e", "&"])

# Words that are capitalised for other reasons: they begin sentences, they label fields and headings, or
# they are days, months, titles and languages. What remains of a phrase without them is taken for a name.
_COMMON_WORDS = """
a about above after again all also although an and any are at be because before below both but by can
could dear did do does during each either else every everything finally first for from further get given
hello hence here hi how however i i'd i'll i'm i've if in instead it it's its just last let let's may
maybe might more most my neither next no none nor not note nothing now of on once one only or other our
out over please rather regarding second she he since so some sorry still such sure than thank that the
their then there these they third this those though three through to today together tomorrow too two
unfortunately until up upon us very was we were what when where whether which while who why will with
within without would yes yesterday yet you your access account action active additional address adjustment
adult age airline airport alert amount answer app application arrival article assistance assistant
available availability bag baggage balance bank basic benefits best bill billing birth board body booking
brand brief business buy calculation call cancel cancellation cancelled card cart cash category center
certificate change charge check checked checkout city class classic code color colour company compensation
complete condition confirm confirmation confirmed connecting contact content cost count country coupon
created credit currency current customer cust daily data date day debit default delayed delivered delivery
department departure description destination detail direct discount document domain due duration economy
email end error estimated example exchange expected expiry express extra failed family faq fare features
fee file final flight free full gate gift goods help high home hotel hour id important include included
information input insurance international invoice issue item itinerary key layover legal level limit
limited link list local location login low mail main manager max maximum medium member membership menu
message method min minimum minute mobile mode model month monthly mr ms dr name new night nonstop number
offer office old one-way online open option order order's origin original outbound output overview page
paid passenger password payment pending per period phone plan plus point policy postal premium price
pricing primary priority privacy problem process processing product profile program project promo
promotion purchase quantity question quick rate rating reason receipt reference refund region regular
related remaining reply report request requested required requirements reservation response result return
review reward roundtrip round round-trip route sale save savings schedule scheduled search seat section
security segment select selected seller service set settings shipment shipped shipping show sign single
size sku special specification standard start state status step stock stop store street subject submit
subtotal success suite summary support system tax taxes team terms ticket time tip title total tracking
transaction transfer travel trip type unit update updated upgrade upgraded use used user username value
verification version via view visit voucher warning warranty weather website week weekly weight welcome
window year yearly zip monday tuesday wednesday thursday friday saturday sunday mon tue wed thu fri sat
sun january february march april june july august september october november december jan feb mar apr jun
jul aug sep sept oct nov dec am asap btw ceo eta etc eu eur fyi gbp gmt gps html iso na ok okay otp pdf
pin pm rsvp sms tbd tv uk url usa usd utc vat vip wifi never always must mandatory attention caution
english french german spanish italian chinese japanese est edt pst pdt cst certainly absolutely great
perfect sincerely regards kind cheers apologies understood alternatively additionally meanwhile currently
api bic cpu csv gpu http https iban json mac ram sql uuid
consider remain added son daughter jr sr jnr snr large small line lines
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_GERMAN = re.compile(
    r"\b(?:der|die|das|dem|und|ist|sind|nicht|eine?[nmrs]?|mit|für|von|am|im|auf|zu|wird|werden|wir|haben|sie|ihre?n?|"
    r"kostet|kosten|bei|auch|noch)\b",
    re.IGNORECASE,
)
_IS_GERMAN = 2
_LOOK = 4_096
_MAX_WORDS = 8


def names_in(text: str) -> Iterator[Claim]:
    """Yield the names of a text without markdown: one or several capitalised words in a row.

    A capital at the beginning of a sentence is ignored unless the word has another one, and so are labels
    (a colon follows). In languages that capitalise all nouns, such as German, names have two or more words.
    Scripts without capitals have no names here.
    """
    # German capitalises every noun.
    least = 2 if len({w.lower() for w in _GERMAN.findall(text, 0, _LOOK)}) >= _IS_GERMAN else 1
    for group in _groups(text):
        if _begins_sentence(text, group):
            group = group[1:]
        words = tuple(word for match in group if _is_distinctive(word := _plain(match[0])))
        # An empty group has no words, and the condition ends before its last word is read.
        if len(words) >= least and not text[group[-1].end() :].lstrip(" ").startswith(":"):
            start, end = group[0].start(), group[-1].end()
            gloss = _GLOSS.match(text, end)
            words = words[:_MAX_WORDS]
            yield Claim("name", text[start:end], start, words=words, gloss=gloss[1] if gloss else None)


def _plain(word: str) -> str:
    """Case-fold a word without dots and possessive endings; of AI-driven, keep the part with capitals."""
    word = "-".join(part for part in word.split("-") if any(map(str.isupper, part)))
    return word.casefold().replace(".", "").removesuffix("'").removesuffix("'s")


def _is_distinctive(word: str) -> bool:
    return len(word) > 1 and word not in _COMMON and word.removesuffix("s") not in _COMMON


def _groups(text: str) -> Iterator[list[re.Match[str]]]:
    """Yield runs of capitalised words with a space or a linking word between them."""
    group: list[re.Match[str]] = []
    linking: re.Match[str] | None = None
    for match in _WORD.finditer(text):
        before = linking or (group[-1] if group else None)
        if before is not None and text[before.end() : match.start()] not in (" ", "/"):
            yield group
            group = []
        # A linking word counts only between two capitalised ones, so the name does not end with it.
        if match[0] in _LINKING and group:
            linking = match
            continue
        linking = None
        if any(c.isupper() for c in match[0]):
            group.append(match)
    if group:
        yield group


def _begins_sentence(text: str, group: list[re.Match[str]]) -> bool:
    """Return True if the first word may be capitalised because it begins a sentence."""
    # A second capital, as in FedEx, is never due to the beginning of a sentence.
    if any(c.isupper() for c in group[0][0][1:]):
        return False
    before = text[: group[0].start()].rstrip(" \t\"'([")
    goes_on = bool(re.match(r",? [^\W\d_]", text[group[-1].end() :]))
    if before.endswith(":"):
        return goes_on
    return (not before or before[-1] in ".!?\n") and (goes_on or len(group) != 2)
