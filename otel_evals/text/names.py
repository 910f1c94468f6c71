"""Names of several capitalised words, such as Omar Davis or Ocean Breeze Hotel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Name", "names_in"]


@dataclass(frozen=True, slots=True)
class Name:
    """A name in a text."""

    text: str
    start: int
    words: tuple[str, ...]
    """Its distinctive words, case-folded, without possessive endings."""
    gloss: str | None = None
    """The abbreviation in brackets behind it, as in Las Vegas (LAS)."""


_WORD = re.compile(r"[^\W\d_]\.(?= )|[^\W\d_]+(?:['-][^\W\d_]+)*")
_GLOSS = re.compile(r" ?\(([A-Z0-9]{2,6})\)")
_LINKING = frozenset(["of", "de", "del", "della", "la", "van", "von", "der", "den", "y", "e", "&", "and"])

# Words that are capitalised for other reasons: they begin sentences, they label fields and headings, or
# they are days, months, titles and languages. What remains of a phrase without them is taken for a name.
_COMMON_WORDS = """
a about above after again all also although an and any are as at be because before below both but by can
could dear did do does during each either else every everything finally first for from further get given
hello hence here hi how however i i'd i'll i'm i've if in instead is it it's its just last let let's may
maybe might more most my neither next no none nor not note nothing now of on once one only or other our
out over please rather regarding second she he since so some sorry still such sure than thank thanks that
the their then there these they third this those though three through thus to today together tomorrow too
two unfortunately until up upon us very was we were what when where whether which while who why will with
within without would yes yesterday yet you your access account action actions active additional address
adjustment adult age airline airport alert amount answer app application arrival article assistance
assistant available availability bag baggage bags balance bank basic benefits best bill billing birth
board body booking brand brief business buy calculation call cancel cancellation cancelled card cart cash
category center certificate change changes charge charges check checked checkout city class classic code
color colour company compensation complete condition conditions confirm confirmation confirmed connecting
contact content cost costs count country coupon created credit currency current customer cust daily data
date dates day days debit default delayed delivered delivery department departure description destination
detail details direct discount document documents domain due duration economy email end error estimated
example exchange expected expiry express extra failed family faq fare features fee fees file final flight
flights free full gate gift goods help high home hotel hour hours id important include included
information input insurance international invoice issue item items itinerary key layover legal level limit
limited link list local location login low mail main manager max maximum medium member members membership
menu message method methods min minimum minute minutes mobile mode model month monthly mr mrs ms dr name
names new night nonstop number numbers offer offers office old one-way online open option options order
orders order's origin original outbound output overview page paid passenger passengers password payment
payments pending per period phone plan plus point points policy postal premium price prices pricing
primary priority privacy problem process processing product products profile program project promo
promotion purchase quantity question questions quick rate rating reason receipt reference refund refunds
region regular related remaining reply report request requested required requirements reservation
reservations response result results return returns review reward rewards roundtrip round round-trip route
sale sales save savings schedule scheduled search seat seats section security segment segments select
selected seller service services set settings shipment shipped shipping show sign single size sku special
specification standard start state status step steps stock stop store street subject submit subtotal
success suite summary support system tax taxes team terms ticket tickets time times tip title total
tracking transaction transfer travel trip type types unit update updated updates upgrade upgraded use used
user username value verification version via view visit voucher warning warranty weather website week
weekly weight welcome window year yearly zip monday tuesday wednesday thursday friday saturday sunday mon
tue wed thu fri sat sun january february march april june july august september october november december
jan feb mar apr jun jul aug sep sept oct nov dec english french german spanish italian chinese japanese pm
am est edt pst pdt cst utc gmt
"""
_COMMON = frozenset(_COMMON_WORDS.split())
_MAX_WORDS = 8


def names_in(text: str) -> Iterator[Name]:
    """The names of two or more distinctive words that a text without markdown states.

    Capitals at the beginning of a sentence say nothing, nor do those of labels (a colon follows). Scripts
    without capitals have no names here.
    """
    for group in _groups(text):
        if _begins_sentence(text, group):
            group = group[1:]
        words = tuple(
            word
            for m in group
            if (word := m[0].casefold().removesuffix("'s").rstrip(".")) not in _COMMON and len(word) > 1
        )
        if len(words) > 1 and not text[group[-1].end() :].lstrip(" ").startswith(":"):
            start, end = group[0].start(), group[-1].end()
            gloss = _GLOSS.match(text, end)
            yield Name(text[start:end], start, words[:_MAX_WORDS], gloss[1] if gloss else None)


def _groups(text: str) -> Iterator[list[re.Match[str]]]:
    """Runs of capitalised words with nothing but a space, or a linking word, between them."""
    group: list[re.Match[str]] = []
    linking: re.Match[str] | None = None
    for match in _WORD.finditer(text):
        before = linking or (group[-1] if group else None)
        adjacent = before is not None and text[before.end() : match.start()] == " "
        if group and not adjacent:
            yield group
            group = []
        if match[0] in _LINKING and group:
            linking = match
            continue
        linking = None
        if match[0][0].isupper() and not (match[0].isupper() and match[0][1:].isalpha()):
            group.append(match)
        elif group:
            yield group
            group = []
    if group:
        yield group


def _begins_sentence(text: str, group: list[re.Match[str]]) -> bool:
    """Whether the first word is capitalised because a sentence begins with it, and the sentence goes on."""
    before = text[: group[0].start()].rstrip(" \t\"'([")
    goes_on = re.match(r",? [^\W\d_]", text[group[-1].end() :])
    return (not before or before[-1] in ".!?\n") and bool(goes_on)
