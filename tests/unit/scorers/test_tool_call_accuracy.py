"""tool_call_accuracy: expected tools, orders, strictness, and expectations that depend on the run."""

from __future__ import annotations

from typing import Any

import pytest

from otel_evals.errors import ConfigError
from otel_evals.model import NotScored, Run, Score
from otel_evals.scorers import tool_call_accuracy
from tests.support.runs import a_run, tool


def judge(tools: str, **options: Any) -> Score | NotScored:
    outcome = tool_call_accuracy(**options)(a_run(tools=[tool(name) for name in tools.split()]))
    assert isinstance(outcome, Score | NotScored)
    return outcome


def value(tools: str, **options: Any) -> float:
    outcome = judge(tools, **options)
    assert isinstance(outcome, Score)
    return outcome.value


@pytest.mark.parametrize(
    ("tools", "strict", "expected"),
    [
        ("search", False, 1),
        ("weather search", False, 1),
        ("weather", False, 0),
        ("", False, 0),
        ("search", True, 1),
        ("search search", True, 0),
        ("weather search", True, 0),
        ("", True, 0),
    ],
)
def test_an_expected_tool_is_among_the_calls_or_under_strict_the_only_one(
    tools: str, strict: bool, expected: float
) -> None:
    assert value(tools, expected_tool="search", strict=strict) == expected


@pytest.mark.parametrize(
    ("tools", "order", "strict", "expected"),
    [
        ("search book", "search book", False, 1),
        ("search weather book", "search book", False, 1),
        ("book search", "search book", False, 0),
        ("book search book", "search book", False, 1),
        ("search", "search search", False, 0),
        ("search book search", "search search", False, 1),
        ("search search", "search search", True, 1),
        ("search book", "search book", True, 1),
        ("search weather book", "search book", True, 0),
        ("", "search", False, 0),
    ],
)
def test_an_expected_order_is_a_subsequence_of_the_calls_or_under_strict_all_of_them(
    tools: str, order: str, strict: bool, expected: float
) -> None:
    assert value(tools, expected_order=order.split(), strict=strict) == expected


def test_an_order_decides_alone() -> None:
    assert value("weather", expected_tool="weather", expected_order=["search"]) == 0


def test_the_label_and_the_explanation_say_what_was_called() -> None:
    outcome = judge("weather", expected_tool="search")
    assert isinstance(outcome, Score)
    assert (outcome.label, outcome.explanation) == ("incorrect", "expected search; called weather")
    nothing = judge("", expected_tool="search")
    assert isinstance(nothing, Score)
    assert nothing.label == "no_tool_calls"


def test_the_expectation_may_depend_on_the_run() -> None:
    def expected(run: Run) -> str | None:
        return "search" if run.tool_calls else None

    assert value("search", expected_tool=expected) == 1
    assert value("weather", expected_tool=expected) == 0
    nothing = judge("", expected_tool=expected)
    assert isinstance(nothing, NotScored)
    assert nothing.reason == "no_expectation"


@pytest.mark.parametrize(
    "options", [{}, {"expected_order": []}, {"expected_order": "search"}, {"expected_tool": ""}]
)
def test_an_expectation_that_can_decide_nothing_is_refused_when_built(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^tool_call_accuracy\.expected_(tool|order): "):
        tool_call_accuracy(**options)
