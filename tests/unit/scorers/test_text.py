"""Numbers, dates, times, names and identifiers, read out of prose."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.scorers.bounds import in_order, pieces
from otel_evals._internal.scorers.text.claims import claims_in, fold, identifier_pattern, list_items, plain
from otel_evals._internal.scorers.text.dates import dates_in, times_in
from otel_evals._internal.scorers.text.evidence import Evidence
from otel_evals._internal.scorers.text.names import names_in
from otel_evals._internal.scorers.text.numbers import numbers_in, readings
from otel_evals._internal.scorers.text.stated import StatedNumbers
from otel_evals._internal.scorers.text.vocabulary import Vocabulary


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1234", ["1234"]),
        ("1,234.50", ["1234.50"]),
        ("1.234,50", ["1234.50"]),
        ("1.234", ["1234", "1.234"]),
        ("49,90", ["49.90"]),
        ("1'234'567", ["1234567"]),
        ("1,23,456.00", ["123456.00"]),
        ("1,234,567", ["1234567"]),
        ("1.2.3", []),
        ("1,2.3,4", []),
        ("٤٩.٩٠", ["49.90"]),
        ("9" * 30, []),
    ],
)
def test_a_number_has_all_the_readings_it_may_have(written: str, meant: list[str]) -> None:
    assert list(readings(written)) == [Decimal(m) for m in meant]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It is $49.90 today", ("$49.90", "49.90", "money")),
        ("It is 49,90 € today", ("49,90 €", "49.90", "money")),
        ("It is EUR 1 234,50 today", ("EUR 1 234,50", "1234.50", "money")),
        ("It is 20 dollars", ("20 dollars", "20", "money")),
        ("about 1.2 million people", ("1.2 million", "1200000", "")),
        ("about 3k users", ("3k", "3000", "")),
        ("1.5万人", ("1.5万", "15000", "")),
        ("22 °C outside", ("22 °C", "22", "c")),
        ("50% off", ("50%", "50", "%")),
        ("a 5-day trip", ("5-day", "5", "day")),
        ("twenty-five hours", ("twenty-five hours", "25", "hour")),
        ("the 3rd floor", ("3rd", "3", "ordinal")),
        ("2 items", ("2", "2", "")),
        ("a 3.45-mile road", ("3.45", "3.45", "")),
        ("in the 1990s", ("1990s", "1990", "decade")),
        ("in Q3", ("Q3", "3", "ordinal")),
        ("2 mil users", ("2 mil", "2000000", "")),
        ("two hundred and five men", ("two hundred and five", "205", "")),
        ("one million two hundred thousand", ("one million two hundred thousand", "1200000", "")),
        ("in nineteen ninety-five", ("nineteen ninety-five", "1995", "")),
        ("two dozen eggs", ("two dozen", "24", "")),
        ("a hundred eggs", ("a hundred", "100", "")),
        ("two and a half weeks", ("two and a half weeks", "2.5", "week")),
    ],
)
def test_numbers_come_with_their_units(text: str, found: tuple[str, str, str]) -> None:
    (number,) = numbers_in(text)
    assert (number.text, str(number.readings[0].quantize(Decimal(found[1]))), number.unit) == found


@pytest.mark.parametrize(
    "text",
    ["no numbers", "one of them", "anyone", "someone often", "hundreds", "per hundred", "COVID-19", "MP3"],
)
def test_words_that_are_no_numbers(text: str) -> None:
    assert list(numbers_in(text)) == []


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("two or three", [2, 3]),
        ("nine and ten", [9, 10]),
        ("five six", [5, 6]),
        ("two hundred, thirty", [200, 30]),
        ("twenty twenty-five", [2025]),
    ],
)
def test_numbers_in_words_end_where_the_next_begins(text: str, numbers: list[int]) -> None:
    assert [number.readings[0] for number in numbers_in(text)] == numbers


@given(st.integers(min_value=2, max_value=999_999))
def test_every_number_in_words_is_read_back(value: int) -> None:
    assert [number.readings for number in numbers_in(f"there are {in_words(value)} of them")] == [(value,)]


def in_words(value: int) -> str:
    """A number below a million as English writes it."""
    if value >= 1000:
        rest = f" {in_words(value % 1000)}" if value % 1000 else ""
        return f"{in_words(value // 1000)} thousand{rest}"
    if value >= 100:
        rest = f" and {in_words(value % 100)}" if value % 100 else ""
        return f"{SMALL[value // 100]} hundred{rest}"
    if value < 20:
        return SMALL[value]
    return TENS[value // 10 - 2] + (f"-{SMALL[value % 10]}" if value % 10 else "")


_SMALL = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen"""
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
SMALL, TENS = _SMALL.split(), _TENS.split()


def test_numbers_come_with_the_words_for_what_they_count() -> None:
    (number,) = numbers_in("he saw two armed men there")
    assert number.things == ("armed", "men", "there")
    assert number.nouns() == {"armed", "men"}
    (number,) = numbers_in("the two of them")
    assert number.nouns() == frozenset()


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("2026-11-25", [(2026, 11, 25)]),
        ("2026-11-25T14:00:00Z", [(2026, 11, 25)]),
        ("25.11.2026", [(2026, 11, 25)]),
        ("3/4/2026", [(2026, 4, 3), (2026, 3, 4)]),
        ("11/25/26", [(2026, 11, 25)]),
        ("25 November", [(None, 11, 25)]),
        ("the 25th of November, 2026", [(2026, 11, 25)]),
        ("Nov 25th", [(None, 11, 25)]),
        ("November 25, 2026", [(2026, 11, 25)]),
        ("May 20-22", [(None, 5, 20), (None, 5, 22)]),
        ("May 2026", [(2026, 5, None)]),
        ("25. November 2026", [(2026, 11, 25)]),
        ("25 de noviembre de 2026", [(2026, 11, 25)]),
        ("25 ноября", [(None, 11, 25)]),
        ("2026年11月25日", [(2026, 11, 25)]),
        ("you may order 2 of them", []),
        ("99/99/2026", []),
        ("version 1.2.3", []),
    ],
)
def test_dates_in_many_forms(text: str, days: list[Any]) -> None:
    assert [day for when in dates_in(text) for day in when.days] == days


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("14:05", [(14, 5)]),
        ("2:05 PM", [(14, 5)]),
        ("12 a.m.", [(0, 0)]),
        ("9:15", [(9, 15), (21, 15)]),
        ("09:15:00", [(9, 15)]),
        ("2026-11-25T08:15:00Z", [(8, 15)]),
        ("25:70", []),
        ("at 9", []),
    ],
)
def test_times_of_day(text: str, times: list[Any]) -> None:
    assert [time for when in times_in(text) for time in when.times] == times


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("We met Omar Davis there.", ["Omar Davis"]),
        ("Unfortunately it is in Memphis.", ["Memphis"]),
        ("Memphis is nice.", []),
        ("FedEx has it.", ["FedEx"]),
        ("by the University of Oslo today", ["University of Oslo"]),
        ("Order Status: on its way", []),
        ("It is on Monday in May.", []),
        ("Ihre Bestellung ist bei der Post und kommt am Montag.", []),
        ("fly to Las Vegas (LAS)", ["Las Vegas", "LAS"]),
        ("between Spain and Latvia", ["Spain", "Latvia"]),
        ("by the U.N. Security Council", ["U.N. Security Council"]),
        ("это Иван Петров", ["Иван Петров"]),
        ("北京很大", []),
    ],
)
def test_names_are_told_by_capitals_that_mean_something(text: str, names: list[str]) -> None:
    assert [name.text for name in names_in(text)] == names


def test_every_claim_is_of_one_kind() -> None:
    answer = "1. **Order A-1001** of 2026-11-25 for Omar Davis at 14:00 costs $49.90, see https://x.org/1."
    assert [(claim.kind, claim.text) for claim in claims_in(answer)] == [
        ("identifier", "A-1001"),
        ("date", "2026-11-25"),
        ("name", "Omar Davis"),
        ("time", "14:00"),
        ("number", "$49.90"),
        ("identifier", "https://x.org/1"),
    ]


@pytest.mark.parametrize(
    "text",
    ["COVID-19", "B2B", "24/7", "5G", "mid-2024", "3-year-old", "MP3", "10am", "3.45-mile", "9th-grade"],
)
def test_words_with_digits_that_identify_nothing(text: str) -> None:
    assert "identifier" not in {claim.kind for claim in claims_in(f"about {text} things")}


def test_markdown_and_list_numbers_are_blanked_in_place() -> None:
    text = "## Plan\n1. **A_1**\n2) `b`\n| c |"
    assert len(plain(text)) == len(text)
    assert plain(text).split() == ["Plan", "A_1", "b", "c"]


def test_lists_are_counted_one_by_one_and_together() -> None:
    assert list_items("- a\n- b\n\n- c\n\ntext") == {2, 1, 3}


@pytest.mark.parametrize(
    ("identifier", "text", "found"),
    [
        ("A-1001", "order a1001 is", True),
        ("a1001", "/orders/A-1001/items", True),
        ("A-100", "A-1001", False),
        ("1001", "A-1001", True),
        ("A-1001", "BA-1001", False),
    ],
)
def test_identifiers_match_however_their_parts_are_separated(identifier: str, text: str, found: bool) -> None:
    assert bool(identifier_pattern(identifier).search(text.casefold())) is found


def test_evidence_beyond_the_limit_is_marked_as_cut_off() -> None:
    assert Evidence(texts=["x" * 50], limit=40).truncated
    assert not Evidence(texts=["x" * 30], limit=40).truncated


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("Turkish", "a bank in Turkey"),
        ("Turkey", "the Turkish lira"),
        ("Belgian", "flown from Belgium"),
        ("Latvia", "the Latvian side"),
        ("Jordanians", "people of Jordan"),
        ("French", "it came from France"),
        ("Netherlands", "Dutch cheese"),
        ("Parisian", "a night in Paris"),
        ("Beyonce", "tickets for Beyoncé"),
        ("companies", "a Company of men"),
        ("UN", "the U.N. said"),
    ],
)
def test_a_word_is_known_in_its_other_forms(word: str, text: str) -> None:
    assert Vocabulary(text).has(word)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("Australian", "made in Austria"),
        ("Memphis", "sent to Members"),
        ("Martian", "seen by Martin"),
        ("Turkish", "turkey for dinner"),
        ("Davies", "for Omar Davis"),
    ],
)
def test_words_that_only_look_alike_are_not_taken_for_each_other(word: str, text: str) -> None:
    assert not Vocabulary(text).has(word)


@pytest.mark.parametrize(
    ("words", "text", "known"),
    [
        (["western", "australia"], "offices in WA and NT", True),
        (["western", "australia"], "offices in NT", False),
        (["new", "york"], "flies from N.Y. today", True),
        (["omar", "davis"], "Davis, Omar", True),
        (["omar", "smith"], "Davis, Omar", False),
    ],
)
def test_a_name_is_known_by_its_words_or_its_initials(words: list[str], text: str, known: bool) -> None:
    assert Vocabulary(text).has_name(words) is known


@pytest.mark.parametrize(
    ("written", "text", "known"),
    [
        ("CNN", "a convolutional neural network", True),
        ("DOJ", "the Department of Justice", True),
        ("UN", "the United Nations", True),
        ("UN", "until noon", False),
        ("Una", "under no account", False),
    ],
)
def test_an_abbreviation_is_known_by_the_words_it_stands_for(written: str, text: str, known: bool) -> None:
    assert Vocabulary(text).has_abbreviation(written) is known


@pytest.mark.parametrize(
    ("texts", "claimed", "refuted"),
    [
        ("wait 5 business days; 10 stores", "10 business days", True),
        ("wait 5 business days or 10 days", "10 business days", False),
        ("wait 5 business days", "10 business days", False),
        ("due in 3 years", "3 months", True),
        ("due in 3 years, or 3", "3 months", False),
        ("5 days; 10 stores", "10 days", False),
    ],
)
def test_a_number_of_other_things_is_refuted_by_another_of_the_same(
    texts: str, claimed: str, refuted: bool
) -> None:
    (number,) = numbers_in(claimed)
    assert StatedNumbers(texts).refutes(number) is refuted


@pytest.mark.parametrize(
    ("day", "known"),
    [
        ((2026, 11, 25), True),
        ((None, 11, 25), True),
        ((2026, 11, None), True),
        ((2025, 12, 24), True),
        ((2025, 11, 25), False),
        ((2026, 12, 25), False),
        ((None, 12, None), True),
    ],
)
def test_dates_match_in_the_parts_that_both_tell(day: Any, known: bool) -> None:
    assert Evidence(texts=["on 2026-11-25 and 24 December"]).has_day(day) is known


@given(st.text(), st.integers(min_value=1, max_value=50))
def test_pieces_make_up_the_text_and_none_is_too_long(text: str, longest: int) -> None:
    found = list(pieces(text, longest))
    assert "".join(piece for _, piece in found) == text
    assert all(0 < len(piece) <= longest and text.startswith(piece, start) for start, piece in found)


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False)), st.integers(min_value=1, max_value=5))
def test_numbers_sorted_in_portions_are_sorted(numbers: list[Decimal], longest: int) -> None:
    assert list(in_order(numbers, longest)) == sorted(numbers)


@pytest.mark.parametrize(
    ("written", "plain_form"),
    [
        ("Mukherjee\u2019s", "Mukherjee's"),
        ("Mukherjee\u02bcs", "Mukherjee's"),
        ("Mukherjee&#39;s", "Mukherjee's"),
        ("2011\u201312", "2011-12"),
    ],
)
def test_what_reads_the_same_is_spelled_the_same(written: str, plain_form: str) -> None:
    assert fold(written) == plain_form


def test_folding_stops_at_the_limit() -> None:
    assert len(fold("\ufdfa" * 10_000, 1_000)) == 1_000


@given(st.text())
def test_claims_lie_in_the_text_and_never_overlap(text: str) -> None:
    done = 0
    for claim in claims_in(text):
        assert claim.text
        assert claim.start >= done
        done = claim.start + len(claim.text)
