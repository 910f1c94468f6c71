"""keyword_coverage: what a keyword is, and when there is nothing to cover."""

from __future__ import annotations

from typing import Any

import pytest

from otel_evals._internal.scorers.compared import keywords
from otel_evals.errors import ConfigError
from otel_evals.model import Message, NotScored, OperationKind, Part, Run, Score
from otel_evals.scorers import keyword_coverage


def judge(said: str, answer: str | None, *, ground_truth: Any = None, **options: Any) -> Score | NotScored:
    run = Run(
        trace_id="1" * 32,
        root_span_id="2" * 16,
        root_kind=OperationKind.AGENT,
        input_messages=(Message(role="user", parts=(Part(kind="text", text=said),)),),
        output=answer,
        ground_truth=ground_truth,
    )
    outcome = keyword_coverage(**options)(run)
    assert isinstance(outcome, Score | NotScored)
    return outcome


@pytest.mark.parametrize(
    ("said", "answer", "expected"),
    [
        ("Ship the red bicycle to Berlin", "Your RED bicycle was shipped to Berlin!", 3 / 4),
        ("red green blue", "Blue, green; red.", 1),
        ("cat", "dog", 0),
        ("Где мой заказ, Иван?", "Ваш заказ уже едет, Иван.", 2 / 4),
        ("<b>Bold</b> text", "bold TEXT", 1),
        ("the Ridge backpack", "The **Ridge backpack** is `sold out`", 1),
    ],
)
def test_the_score_is_the_share_of_the_users_keywords(said: str, answer: str, expected: float) -> None:
    outcome = judge(said, answer)
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(expected)


def test_missing_keywords_are_named() -> None:
    outcome = judge("Ship the bicycle to Berlin", "The bicycle is out of stock.")
    assert isinstance(outcome, Score)
    assert outcome.explanation == "1 of 3 keywords covered; missing: ship, berlin"


@pytest.mark.parametrize("said", ["the and of to a", "12 345", "!?"])
def test_a_reference_without_keywords_is_not_scored(said: str) -> None:
    outcome = judge(said, "anything")
    assert isinstance(outcome, NotScored)
    assert outcome.reason == "no_keywords"


def test_an_answer_that_was_not_recorded_is_not_scored() -> None:
    outcome = judge("red bicycle", None)
    assert isinstance(outcome, NotScored)
    assert outcome.reason == "output_not_recorded"


def test_the_reference_may_be_the_expected_answer() -> None:
    outcome = judge("ignored", "Berlin", ground_truth="Berlin tomorrow", reference="ground_truth")
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(1 / 2)


def test_other_languages_bring_their_own_stop_words() -> None:
    outcome = judge("der rote Wagen", "ein Wagen", stop_words={"der", "ein"})
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(1 / 2)


def test_keywords_keep_links_and_compounds_whole() -> None:
    text = "See https://example.org/a.b?c, state-of-the-art and 'quoted' #"
    assert keywords(text, {"see", "and"}) == ["https://example.org/a.b?c,", "state-of-the-art", "quoted"]


def test_an_unknown_reference_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^keyword_coverage\.reference: "):
        keyword_coverage(reference="history")  # type: ignore[arg-type]  # the mistake under test
