"""Scorers that compare texts, and tone_consistency: by hand, in many scripts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_evals._internal.scorers.compared import bigram_similarity, keywords, uncovered
from otel_evals.errors import ConfigError
from otel_evals.model import NotScored, Score
from otel_evals.scorers import (
    FunctionScorer,
    completeness,
    content_similarity,
    keyword_coverage,
    textual_difference,
    tone_consistency,
)
from tests.support.runs import a_run

Make = Callable[..., FunctionScorer]
COMPARING: list[Make] = [content_similarity, textual_difference, completeness, keyword_coverage]


def value(scorer: FunctionScorer, answer: str | None, said: str | None, **fields: Any) -> float | str:
    """The score, or the reason why there is none."""
    outcome = scorer(a_run(answer, said, **fields))
    assert isinstance(outcome, Score | NotScored)
    return outcome.reason if isinstance(outcome, NotScored) else outcome.value


@pytest.mark.parametrize("make", COMPARING)
@pytest.mark.parametrize(
    "text", ["The same words", "те же слова", "同样的话", "cafe\u0301", "🍕 and 🍕", "نفس الكلمات"]
)
def test_a_text_is_wholly_like_itself(make: Make, text: str) -> None:
    assert value(make(), text, text) == 1.0


@pytest.mark.parametrize("make", COMPARING)
def test_composed_and_decomposed_letters_are_the_same(make: Make) -> None:
    assert value(make(), "caf\u00e9 cr\u00e8me", "cafe\u0301 cre\u0300me") == 1.0


@pytest.mark.parametrize("make", COMPARING)
def test_texts_that_are_not_there_are_not_compared(make: Make) -> None:
    assert value(make(), None, "words") == "output_not_recorded"
    assert value(make(), "", "words") == "output_empty"
    assert value(make(), "words", None) == "input_not_recorded"
    assert value(make(reference="ground_truth"), "words", "x") == "ground_truth_not_recorded"


@pytest.mark.parametrize("make", COMPARING)
def test_the_reference_may_be_the_expected_answer_even_a_structured_one(make: Make) -> None:
    scorer = make(reference="ground_truth")
    assert value(scorer, '{"city": "Bern"}', "ignored", ground_truth={"city": "Bern"}) == 1.0


@pytest.mark.parametrize("make", COMPARING)
def test_an_unknown_reference_is_refused(make: Make) -> None:
    with pytest.raises(ConfigError, match=r"\.reference: must be input or ground_truth"):
        make(reference="history")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("night", "nacht", 0.25),
        ("cat", "dog", 0.0),
        ("a", "b", 0.0),
        ("Cat Food", "catfood", 1.0),
        ("人工智能", "人工智慧", 2 / 3),
    ],
)
def test_similarity_is_the_share_of_common_pairs(one: str, other: str, expected: float) -> None:
    assert bigram_similarity(one, other) == pytest.approx(expected)
    assert bigram_similarity(other, one) == pytest.approx(expected)


def test_case_and_blanks_count_where_they_are_told_to() -> None:
    assert value(content_similarity(ignore_case=False), "CAT", "cat") == 0.0
    assert value(content_similarity(ignore_whitespace=False), "a b c", "abc") < 1


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("abcdef", "abc", 2 / 3), ("axbxcx", "abc", 2 / 3), ("abc", "cba", 1 / 3), ("x", "y", 0.0)],
)
def test_difference_is_what_is_left_of_the_longest_common_subsequence(
    one: str, other: str, expected: float
) -> None:
    assert value(textual_difference(), one, other) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("said", "answer", "expected"),
    [
        ("Ship the red bicycle to Berlin", "Your RED bicycle was shipped to Berlin!", 3 / 4),
        ("red green blue", "Blue, green; red.", 1),
        ("cat", "dog", 0),
        ("Где мой заказ, Иван?", "Ваш заказ уже едет, Иван.", 2 / 4),
        ("<b>Bold</b> text", "bold TEXT", 1),
        ("the Ridge backpack", "The **Ridge backpack** is `sold out`", 1),
        ("the and of to a", "anything", "no_keywords"),
        ("12 345", "anything", "no_keywords"),
        ("!?", "anything", "no_keywords"),
    ],
)
def test_keyword_coverage_is_the_share_of_the_users_keywords(said: str, answer: str, expected: Any) -> None:
    assert value(keyword_coverage(), answer, said) == expected


def test_missing_keywords_are_named() -> None:
    outcome = keyword_coverage()(a_run("The bicycle is out of stock.", "Ship the bicycle to Berlin"))
    assert isinstance(outcome, Score)
    assert outcome.explanation == "1 of 3 keywords covered; missing: ship, berlin"


def test_other_languages_bring_their_own_stop_words() -> None:
    assert value(keyword_coverage(stop_words={"der", "ein"}), "ein Wagen", "der rote Wagen") == 1 / 2


def test_keywords_keep_links_and_compounds_whole() -> None:
    text = "See https://example.org/a.b?c, state-of-the-art and 'quoted' #"
    assert keywords(text, {"see", "and"}) == ["https://example.org/a.b?c,", "state-of-the-art", "quoted"]


@pytest.mark.parametrize(
    ("answer", "said", "expected"),
    [
        ("The foxes jump over dogs", "a fox jumps", 2 / 3),
        ("Он едет", "Он уехал в Берлин", 1 / 4),
        ("nothing of it", "Kubernetes deployment", 0.0),
        ("the photosynthetic process", "photosynthetics", 1.0),
    ],
)
def test_completeness_is_the_share_of_elements_that_come_back(
    answer: str, said: str, expected: float
) -> None:
    assert value(completeness(), answer, said) == pytest.approx(expected)


@pytest.mark.slow
def test_completeness_knows_other_languages() -> None:
    assert value(completeness(language="de"), "Die Häuser sind alt", "das Haus ist alt") == pytest.approx(1.0)


def test_completeness_refuses_languages_it_does_not_know() -> None:
    with pytest.raises(ConfigError, match=r"^completeness\.language: "):
        completeness(language="xx")


def test_completeness_without_words_is_not_scored() -> None:
    assert value(completeness(), "anything", "?!") == "no_elements"


def test_coverage_gives_the_recorded_scores_for_the_recorded_elements() -> None:
    folder = os.environ.get("OTEL_EVALS_ORACLE")
    if not folder:
        pytest.skip("OTEL_EVALS_ORACLE names no folder of recorded cases")
    cases = json.loads((Path(folder) / "oracle.json").read_text())["cases"]
    recorded = [c["expected"] for c in cases if c["scorer"] == "completeness"]
    compared = 0
    for expected in recorded:
        wanted, given = (expected["preprocessStepResult"][f"{side}Elements"] for side in ("input", "output"))
        if wanted:
            compared += 1
            share = 1 - len(uncovered(wanted, given)) / len(wanted)
            assert share == pytest.approx(expected["score"], abs=1e-6)
    assert compared > 20


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("We are happy to help. We are happy to help.", 1.0),
        ("This is superb! That is awful.", 0.0),
        ("It costs 3.50 today", 1.0),
        ("This is good. That is bad", 0.0),
        ("Good. Not bad.", 0.0),
    ],
)
def test_an_even_tone_scores_high(answer: str, expected: float) -> None:
    got = value(tone_consistency(), answer, "?")
    assert isinstance(got, float)
    assert got == pytest.approx(expected) or (expected == 0.0 and got < 0.6)


def test_a_tone_is_held_against_a_sample() -> None:
    scorer = tone_consistency(reference_tone="This is wonderful")
    assert value(scorer, "That is wonderful", "?") == pytest.approx(1.0)
    assert value(scorer, "That is terrible", "?") == 0.0


def test_a_negation_turns_a_word_round() -> None:
    assert value(tone_consistency(reference_tone="not good"), "not good", "?") == 1.0
    assert value(tone_consistency(reference_tone="good"), "not good", "?") == 0.0


@pytest.mark.parametrize("sample", ["", "?!"])
def test_a_sample_without_words_is_refused(sample: str) -> None:
    with pytest.raises(ConfigError, match=r"^tone_consistency\.reference_tone: "):
        tone_consistency(reference_tone=sample)


def test_an_answer_without_words_has_no_tone() -> None:
    assert value(tone_consistency(), "...", "?") == "no_words"
