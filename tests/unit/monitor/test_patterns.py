"""Failure patterns: runs that fail alike are one line, with a share of all traffic."""

from __future__ import annotations

import random
import time
import timeit
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals_monitor._internal.report.failure_text import failure_text, group_texts, template_of
from otel_evals_monitor._internal.report.patterns import Failures, failures_of
from otel_evals_monitor._internal.store.filters import Window
from otel_evals_monitor._internal.store.queries import stored_slices
from otel_evals_monitor._internal.store.writer import ResultsStore
from tests.support.result_records import START, record

HOUR = 3600
PROSE = {
    "refund": (
        "The answer promises a refund within 5 days, but refund_status returned none for order SO-1182.",
        "No refund was opened for SO-9981, yet the assistant says that a refund of $20 is on its way.",
        "The assistant states the refund was already issued on March 3; nothing supports that.",
        "Unsupported: the refund of 45 EUR. The tool says 'No refund was opened'.",
    ),
    "language": (
        "The customer asked in German but the answer is written in English.",
        "The reply is in English although the user wrote in French.",
        "Answer language (English) differs from the language of the question (Italian).",
    ),
    "tone": (
        "The tone of the answer is dismissive towards the customer.",
        "Impolite tone: the assistant blames the customer for the delay.",
    ),
}


def failed(number: int, explanation: str, value: float = 0.0, **run: Any) -> dict[str, Any]:
    given = record(number, value, **run)
    given["evaluations"][0]["explanation"] = explanation
    return given


def traffic(runs: int, *, from_hour: float, hours: float, first: int = 0) -> Iterator[dict[str, Any]]:
    """One run in ten states a wrong price, one in twenty has no answer."""
    for number in range(first, first + runs):
        at = START + HOUR * (from_hour + hours * (number - first) / runs)
        if number % 10 == 0:
            yield failed(number, f'1 of 3 facts is wrong: number "{number} USD"', time=at)
        elif number % 20 == 1:
            yield failed(number, "the answer is empty", time=at)
        else:
            yield record(number, 1.0, time=at)


def failures(store: ResultsStore, window: Window | None = None) -> Failures:
    with store.database.reading() as connection:
        return failures_of(connection, stored_slices(connection), window or Window())


@pytest.mark.parametrize(
    ("text", "template"),
    [
        ('found nowhere: name "Weber", date "3 May", name "Roux"', "found nowhere: date …, name …"),
        ("order SO-1182 of a.b@example.com costs $12.50", "order … of … cost …"),
        ("see https://example.com/a?b=c, it is 3 of 4", "see … it is … of …"),
        ("expected get_order; called no tool", "expected get_order; called no tool"),
    ],
)
def test_a_template_has_no_values(text: str, template: str) -> None:
    assert template_of(text) == template


@given(st.text())
def test_a_template_is_its_own_template(text: str) -> None:
    assert template_of(template_of(text)) == template_of(text)


@pytest.mark.parametrize("repeated", ["x_", "a.b-", ".", "“", "x@"])
def test_templates_of_hostile_explanations_take_linear_time(repeated: str) -> None:
    def seconds(length: int) -> float:
        text = repeated * (length // len(repeated))
        return min(timeit.repeat(lambda: template_of(text), timer=time.process_time, number=1, repeat=3))

    assert seconds(2_000) < 25 * seconds(200) + 0.003


def test_explanations_in_a_judges_words_are_grouped_by_their_telling_words() -> None:
    kinds = [kind for kind, texts in PROSE.items() for _ in texts]
    texts = [failure_text(text, {}) for texts in PROSE.values() for text in texts]
    passing = ["The answer to the customer's order is supported.", "The assistant answered the customer."]
    found: dict[Any, Counter[str]] = {}
    for kind, group in zip(kinds, group_texts(texts, passing), strict=True):
        found.setdefault(group, Counter())[kind] += 1
    assert sorted(map(dict, found.values()), key=str) == [{"language": 3}, {"refund": 4}, {"tone": 2}]
    assert {word for group in found for word in group.words} >= {"refund", "english", "tone"}


def test_the_same_explanation_after_another_failed_tool_is_another_pattern(store: ResultsStore) -> None:
    def run(number: int, error: str | None) -> dict[str, Any]:
        call = {"name": "track", "status": "error" if error else "ok", "error": error}
        return failed(number, f"{number} facts are wrong", tool_calls=[call])

    errors = (None, "timed out after 30 s", "timed out after 31 s", "no parcel 17")
    store.write(run(number, errors[number % 4]) for number in range(20))
    found = {pattern.name: pattern.runs for pattern in failures(store).patterns}
    assert found == {
        "track failed: timed out after … s; … facts are wrong": 10,
        "track failed: no parcel …; … facts are wrong": 5,
        "… facts are wrong": 5,
    }


def test_shares_are_of_all_traffic_whatever_was_sampled(store: ResultsStore) -> None:
    """Runs with the error are sampled twenty times as often; unweighted, their share would be 0.5."""
    rng, given = random.Random(3), []
    for number in range(20_000):
        wrong = rng.random() < 0.05
        if rng.random() < (probability := 1.0 if wrong else 0.05):
            given.append(failed(number, f"{number} is wrong", 0.0 if wrong else 1.0, probability=probability))
    store.write(given)
    (pattern,) = failures(store).patterns
    assert pattern.share.interval is not None
    assert 0.05 in pattern.share.interval
    assert pattern.share.interval.width < 0.02
    assert pattern.runs > 0.4 * len(given)


def test_the_first_failure_is_that_before_the_window_and_a_new_pattern_is_new(store: ResultsStore) -> None:
    store.write(traffic(200, from_hour=0, hours=10))
    store.write(traffic(200, from_hour=10, hours=10, first=200))
    late = (START // HOUR + 16) * HOUR
    store.write(failed(n, f"tool {n} broke", time=late + 60 * (n - 900)) for n in range(900, 960))
    begin = (START // HOUR + 10) * HOUR
    patterns = {each.name: each for each in failures(store, Window(begin, begin + 10 * HOUR)).patterns}
    known, new = patterns["… of … facts is wrong: number …"], patterns["tool … broke"]
    assert (known.first_seen, known.trend) == (START, "steady")
    assert (new.first_seen, new.trend, new.runs) == (late, "new", 60)


def test_of_many_failing_runs_a_sample_is_read(store: ResultsStore) -> None:
    scorers = ("grounded", "tone", "length", "safety")
    runs = [
        failed(number, f"{number} is wrong" if number % 4 else "it is empty", time=START + number)
        for number in range(3_000)
    ]
    for number, each in enumerate(runs):
        each["evaluations"] = [
            {**each["evaluations"][0], "scorer": name, "evaluation_id": f"{number}-{name}"}
            for name in scorers
        ]
    store.write(runs)
    with store.database.reading() as connection:
        found = failures_of(connection, stored_slices(connection, scorer_id="tone"), Window())
    assert found.runs == 3_000
    assert 1_700 < found.read < 2_300
    shares = {each.name: each.share for each in found.patterns}
    for name, share in {"… is wrong": 0.75, "it is empty": 0.25}.items():
        assert (interval := shares[name].interval) is not None
        assert share in interval
        assert interval.width < 0.05


def test_a_scorer_that_seldom_gives_the_best_score_fails_in_the_worse_half(store: ResultsStore) -> None:
    store.write(failed(number, "so so", number % 100 / 100) for number in range(200))
    found = failures(store)
    assert (found.limit, found.runs) == (0.5, 100)


@pytest.mark.parametrize(
    "run",
    [
        {"tool_calls": "none"},
        {"tool_calls": [None, {"error": {"code": 3}}, {"status": "error", "name": None}]},
        {"error_type": "x" * 5_000, "input": "\ud800"},
    ],
)
def test_strange_records_have_patterns_too(store: ResultsStore, run: dict[str, Any]) -> None:
    store.write(failed(number, "", **run) for number in range(4))
    found = failures(store)
    assert found.runs == 4
    assert sum(each.runs for each in found.patterns) + found.others == 4


def test_nothing_on_record_nothing_failed(store: ResultsStore) -> None:
    assert failures(store) == Failures()
    store.write([record(1, None, status="failed", reason="timeout")])
    assert failures(store) == Failures()
    store.write([record(2, 1.0)])
    assert failures(store) == Failures(limit=1.0)


def test_nine_of_the_ten_worst_runs_are_one_line(store: ResultsStore) -> None:
    store.write(failed(number, f"order {number} does not exist", 0.0) for number in range(9))
    store.write([failed(20, "the answer is empty", 0.1), *(record(n, 1.0) for n in range(30, 100))])
    done = CliRunner().invoke(app, ["report", store.database.name, "--worst", "10"])
    (line,) = (line for line in done.stdout.splitlines() if "of the 10 worst" in line)
    assert "9 of the 10 worst runs are the same failure: order … does not exist; here: order " in line
    assert done.stdout.count("trace ") == 2
    assert "    in no pattern or in smaller ones: 1 failing run\n" in done.stdout


def test_a_pattern_has_a_name_without_words_to_take_it_from(store: ResultsStore) -> None:
    labelled = [record(number, 0.0) for number in range(3)]
    for each in labelled:
        each["evaluations"][0] |= {"explanation": None, "label": "false"}
    store.write([*labelled, *(failed(n, f"{n} / {n}", time=START + n) for n in range(5, 8))])
    found = {pattern.name for pattern in failures(store).patterns}
    assert found == {"labelled false", "7 / 7"}


def test_singular_and_plural_are_one_pattern_with_a_name_that_people_would_write(store: ResultsStore) -> None:
    said = ["1 of 2 facts is unsupported", "2 of 3 facts are unsupported", "3 of 4 facts are unsupported"]
    store.write(failed(number, said[number % 3]) for number in range(9))
    (pattern,) = failures(store).patterns
    assert (pattern.runs, pattern.name) == (9, "… of … facts are unsupported")
