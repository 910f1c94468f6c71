"""Conditions on the finished run, at their edges."""

from __future__ import annotations

from typing import Any

import pytest

from otel_evals import sampling
from otel_evals._internal.sampling.algebra import Chance
from otel_evals._internal.sampling.conditions import find_attribute
from otel_evals.errors import ConfigError
from otel_evals.model import Operation, OperationKind, Run, SpanRecord, ToolCall


def run(**fields: Any) -> Run:
    return Run(trace_id="1" * 32, root_span_id=f"{1:016x}", root_kind=OperationKind.AGENT, **fields)


def operation(number: int, attributes: dict[str, Any]) -> Operation:
    span = SpanRecord(trace_id="1" * 32, span_id=f"{number:016x}", attributes=attributes)
    return Operation(span=span, kind=OperationKind.AGENT, convention="x")


def test_a_tool_that_was_used_picks_the_run() -> None:
    """By its whole name, or with wildcards."""
    judged = run(tool_calls=(ToolCall(name="delete_order"),))
    for name, picked in (("delete_order", 1), ("delete_*", 1), ("delete", 0), ("Delete_order", 0)):
        assert sampling.used_tool(name).chance(judged).probability == picked


def test_an_attribute_on_any_span_or_the_resource_picks_the_run() -> None:
    """Feedback may stand on any of the run's spans."""
    spans = [
        SpanRecord(trace_id="1" * 32, span_id=f"{i:016x}", attributes=attributes)
        for i, attributes in enumerate([{"a": 1}, {"feedback": "down", "zero": 0}], 1)
    ]
    operations = tuple(Operation(span=s, kind=OperationKind.AGENT, convention="x") for s in spans)
    judged = run(operations=operations, resource={"service.name": "shop"})
    conditions = [
        ("a",),
        ("feedback",),
        ("feedback", "down"),
        ("service.name", "shop"),
        ("zero", 0),
        ("zero",),
    ]
    for arguments in conditions:
        assert sampling.attribute(*arguments).chance(judged) == Chance(1.0)
    for arguments in [("b",), ("feedback", "up"), ("a", None)]:
        assert sampling.attribute(*arguments).chance(judged) == Chance(0.0)


def test_an_attribute_is_taken_from_the_root_then_from_other_spans_then_from_the_resource() -> None:
    other, root = operation(2, {"a": "other", "b": "other"}), operation(1, {"a": "root"})
    judged = run(operations=(other, root), resource={"a": "resource", "b": "resource", "c": "resource"})
    assert [find_attribute(judged, key) for key in "abcd"] == ["root", "other", "resource", None]
    rootless = run(operations=(other,), resource={"a": "resource"})
    assert find_attribute(rootless, "a") == "other"


@pytest.mark.parametrize("failed", [{"error": "it broke"}, {"error_type": "ValueError"}])
def test_an_error_of_the_run_or_of_one_turn_picks_it(failed: dict[str, str]) -> None:
    for judged in (run(**failed), run(turns=(run(), run(**failed)))):
        assert sampling.errors().chance(judged) == Chance(1.0)
    assert sampling.errors().chance(run(turns=(run(), run()))) == Chance(0.0)


def test_a_run_is_slower_than_a_limit_above_it_only() -> None:
    for end, picked in ((None, 0), (500_000_000, 0), (501_000_000, 1)):
        assert sampling.slower_than(0.5).chance(run(start_time=0, end_time=end)).probability == picked


def test_never_picks_nothing() -> None:
    assert sampling.never().chance(run()).probability == 0.0
    assert sampling.never().ceiling == 0.0


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: sampling.slower_than(0), r"^sample: slower_than\(0\): the duration in seconds"),
        (lambda: sampling.used_tool(""), r"^sample: used_tool\(''\): give a tool's name"),
        (lambda: sampling.attribute(""), r"^sample: attribute\(''\): give an attribute's name"),
        (lambda: sampling.when(1), r"^sample: when\(1\): give a function of the run"),  # type: ignore[arg-type]
    ],
)
def test_a_mistake_names_the_field_and_what_was_written(make: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        make()
