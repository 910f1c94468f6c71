"""Numbers, dates, times, names and identifiers, read out of prose."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals.text.claims import claims_in, identifier_pattern, list_items, plain
from otel_evals.text.dates import dates_in, times_in
from otel_evals.text.evidence import Evidence, decode
from otel_evals.text.names import names_in
from otel_evals.text.numbers import numbers_in, readings


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
    ],
)
def test_numbers_come_with_their_units(text: str, found: tuple[str, str, str]) -> None:
    (number,) = numbers_in(text)
    assert (number.text, str(number.readings[0].quantize(Decimal(found[1]))), number.unit) == found


@pytest.mark.parametrize("text", ["no numbers", "one of them", "anyone", "someone often"])
def test_words_that_are_no_numbers(text: str) -> None:
    assert list(numbers_in(text)) == []


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


@pytest.mark.parametrize("text", ["COVID-19", "B2B", "24/7", "5G", "mid-2024", "3-year-old", "MP3", "10am"])
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


def test_evidence_reads_json_inside_strings_and_counts_and_adds_up() -> None:
    rows = '[{"price": 10.5, "n": 2, "paid": "yes"}, {"price": 20, "n": 1, "paid": "no"}]'
    evidence = Evidence(results=[{"body": rows}])
    assert {Decimal("10.5"), Decimal(20)} <= evidence.distinct
    assert Decimal("30.5") in evidence.totals
    assert Decimal("41.0") in evidence.totals
    assert {1, 2} <= evidence.counts
    assert decode("{not json") == "{not json"


def test_evidence_beyond_the_limit_is_marked_as_cut_off() -> None:
    assert Evidence(texts=["x" * 50], limit=40).truncated
    assert not Evidence(texts=["x" * 30], limit=40).truncated


@given(st.text())
def test_claims_lie_in_the_text_and_never_overlap(text: str) -> None:
    done = 0
    for claim in claims_in(text):
        assert claim.text
        assert claim.start >= done
        done = claim.start + len(claim.text)
