"""The small checks: what passes, what fails, and what cannot be told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from otel_evals.errors import ConfigError
from otel_evals.model import Availability, NotScored, Score
from otel_evals.scorers import FunctionScorer, checks
from tests.support.runs import a_run, tool


def judge(
    scorer: FunctionScorer, answer: str | None = "It is SUNNY, 21°C", calls: str = "", **fields: Any
) -> Any:
    tools = tuple(tool(name) for name in calls.split())
    return asyncio.run(scorer.score(a_run(answer, tools=tools, **fields)))


def passes(scorer: FunctionScorer, answer: str | None = "It is SUNNY, 21°C", calls: str = "") -> bool:
    outcome = judge(scorer, answer, calls)
    assert isinstance(outcome, Score)
    assert outcome.label == ("true" if outcome.value else "false")
    return outcome.value == 1.0


@pytest.mark.parametrize(
    ("scorer", "expected"),
    [
        (checks.includes("sunny"), True),
        (checks.includes("sunny", ignore_case=False), False),
        (checks.includes("rain"), False),
        (checks.excludes("rain"), True),
        (checks.excludes("Sunny"), False),
        (checks.excludes("Sunny", ignore_case=False), True),
        (checks.equals("it is sunny, 21°c"), True),
        (checks.equals("it is sunny, 21°c", ignore_case=False), False),
        (checks.equals("It is SUNNY, 21°C "), False),
        (checks.matches(r"\d+°C"), True),
        (checks.matches(r"^\d+$"), False),
        (checks.matches(r"It.*C", exact=True), True),
        (checks.matches(r"It", exact=True), False),
        (checks.similarity("it is sunny, 22°C", threshold=0.8), True),
        (checks.similarity("it rains", threshold=0.8), False),
    ],
)
def test_checks_of_the_answer(scorer: FunctionScorer, expected: bool) -> None:
    assert passes(scorer) is expected


@pytest.mark.parametrize(
    ("scorer", "calls", "expected"),
    [
        (checks.called_tool("a"), "b a", True),
        (checks.called_tool("a", times=2), "a b", False),
        (checks.called_tool("a", times=2), "a b a", True),
        (checks.did_not_call("a"), "b", True),
        (checks.did_not_call("a"), "b a", False),
        (checks.tool_order(["a", "c"]), "a b c", True),
        (checks.tool_order(["c", "a"]), "a b c", False),
        (checks.tool_order(["a", "a"]), "a b a", True),
        (checks.max_tool_calls(1), "a", True),
        (checks.max_tool_calls(1), "a b", False),
        (checks.used_no_tools(), "", True),
        (checks.used_no_tools(), "a", False),
        (checks.no_tool_errors(), "a b", True),
        (checks.no_tool_errors(), "", True),
    ],
)
def test_checks_of_the_tools(scorer: FunctionScorer, calls: str, expected: bool) -> None:
    assert passes(scorer, calls=calls) is expected


def test_a_failed_call_is_an_error_wherever_it_says_so() -> None:
    for failed in (tool("a", error="boom"), tool("a", {"error": "boom"}), tool("a", {"isError": True})):
        outcome = asyncio.run(checks.no_tool_errors().score(a_run(tools=(failed,))))
        assert isinstance(outcome, Score)
        assert outcome.value == 0.0


def test_similarity_without_a_threshold_is_a_number() -> None:
    outcome = judge(checks.similarity("the weather is sunny"), "The weather was sunny")
    assert isinstance(outcome, Score)
    assert outcome.value == pytest.approx(0.8484848484848485)


def test_an_accent_may_be_a_mark_of_its_own() -> None:
    outcome = asyncio.run(checks.equals("caf\u00e9").score(a_run("cafe\u0301")))
    assert isinstance(outcome, Score)
    assert outcome.value == 1


@pytest.mark.parametrize("scorer", [checks.includes("x"), checks.excludes("x"), checks.equals("x")])
def test_an_answer_that_is_not_there_is_not_checked(scorer: FunctionScorer) -> None:
    missing, masked = (
        judge(scorer, None),
        judge(scorer, None, availability={"output": Availability.CAPTURED_OFF}),
    )
    assert isinstance(missing, NotScored)
    assert isinstance(masked, NotScored)
    assert (missing.reason, masked.reason) == ("output_not_recorded", "output_captured_off")


def test_two_checks_of_a_kind_take_ids_of_their_own() -> None:
    assert checks.includes("a").id == "includes"
    assert checks.includes("a", id="mentions_price").id == "mentions_price"
    assert checks.includes("a").version != checks.includes("b").version


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: checks.includes(""), "includes.text"),
        (lambda: checks.excludes("", id="clean"), "clean.text"),
        (lambda: checks.matches("("), "matches.pattern"),
        (lambda: checks.similarity("x", threshold=2), "similarity.threshold"),
        (lambda: checks.tool_order([]), "tool_order.names"),
        (lambda: checks.tool_order("ab"), "tool_order.names"),
    ],
)
def test_a_check_that_can_decide_nothing_is_refused(make: Any, field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert refused.value.field == field
