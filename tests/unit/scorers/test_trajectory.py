"""trajectory_accuracy and trajectory_quality: orders, budgets, retries, what is forbidden, nested agents."""

from __future__ import annotations

from typing import Any

import pytest

from otel_evals._internal.scorers.trajectory import ExpectedStep, steps_of
from otel_evals._internal.scorers.trajectory_quality import Plan
from otel_evals.errors import ConfigError
from otel_evals.model import (
    NotScored,
    Operation,
    OperationKind,
    Run,
    Score,
    SpanRecord,
    ToolCall,
    Usage,
)
from otel_evals.scorers import FunctionScorer, trajectory_accuracy, trajectory_quality
from tests.support.runs import a_run, tool


def run(calls: str, **fields: Any) -> Run:
    """A run that calls tools by these names; an exclamation mark makes a call fail."""
    tools = [tool(name.rstrip("!"), **({"error": "boom"} if "!" in name else {})) for name in calls.split()]
    return a_run(tools=tools, **fields)


def nested_run() -> Run:
    """An agent calls `plan` and hands over, through a wrapper, to a `writer` that calls `draft` twice."""

    def operation(span_id: str, kind: OperationKind, name: str, **fields: Any) -> Operation:
        span = SpanRecord(trace_id="1", span_id=span_id, start_time=0, end_time=2_000_000_000)
        call = ToolCall(name=name) if kind is OperationKind.TOOL else None
        return Operation(span=span, kind=kind, convention="", name=name, tool_call=call, **fields)

    agent, inner, wrapper = OperationKind.AGENT, OperationKind.TOOL, OperationKind.OTHER
    operations = (
        operation("root", agent, "support"),
        operation("1", inner, "plan"),
        operation("2", wrapper, "step"),
        operation("3", agent, "writer", usage=Usage(input_tokens=50)),
        operation("4", inner, "draft"),
        operation("5", inner, "draft"),
    )
    children = {"root": ("1", "2"), "2": ("3",), "3": ("4", "5")}
    calls = tuple(o.tool_call for o in operations if o.tool_call)
    return Run(
        trace_id="1",
        root_span_id="root",
        root_kind=agent,
        operations=operations,
        children=children,
        tool_calls=calls,
    )


def value(scorer: FunctionScorer, judged: Run) -> float | str:
    outcome = scorer(judged)
    assert isinstance(outcome, Score | NotScored)
    return outcome.reason if isinstance(outcome, NotScored) else outcome.value


@pytest.mark.parametrize(
    ("expected", "actual", "ordering", "score"),
    [
        ("a b c", "a b c", "strict", 1.0),
        ("a b c", "a c", "strict", 0.33),
        ("a b", "a a b", "strict", 0.25),
        ("a", "a x y z", "strict", 0.0),
        ("a b c", "a x b y c", "relaxed", 1.0),
        ("a b c", "b a c", "relaxed", 0.67),
        ("a b c", "c b a", "unordered", 1.0),
        ("a a", "a", "unordered", 0.5),
        ("a", "", "relaxed", 0.0),
        ("", "", "relaxed", 1.0),
        ("", "a", "relaxed", 0.0),
    ],
)
def test_accuracy_is_the_share_of_expected_steps(
    expected: str, actual: str, ordering: Any, score: float
) -> None:
    assert value(trajectory_accuracy(expected=expected.split(), ordering=ordering), run(actual)) == score


def test_repeats_cost_where_they_are_not_allowed() -> None:
    scorer = trajectory_accuracy(expected=["a", "b"], allow_repeats=False)
    assert value(scorer, run("a a b b")) == 0.8


def test_a_step_may_be_told_by_its_arguments_in_any_order_of_keys() -> None:
    judged = a_run(tools=[ToolCall(name="a", arguments={"x": 1, "y": 2})])
    assert value(trajectory_accuracy(expected=[{"name": "a", "arguments": {"y": 2, "x": 1}}]), judged) == 1.0
    assert value(trajectory_accuracy(expected=[{"name": "a", "arguments": {"y": 2}}]), judged) == 0.0


def test_the_expected_steps_may_depend_on_the_run() -> None:
    scorer = trajectory_accuracy(expected=lambda judged: ["a"] if judged.agent_name == "support" else None)
    assert value(scorer, run("a", agent_name="support")) == 1.0
    assert value(scorer, run("a", agent_name="sales")) == "no_expectation"


def test_the_run_of_another_agent_is_one_step_with_steps_within() -> None:
    plan, writer = steps_of(nested_run())
    assert (plan.name, plan.kind) == ("plan", "tool")
    assert (writer.name, writer.kind, writer.tokens, writer.seconds) == ("writer", "agent", 50, 2.0)
    assert [step.name for step in writer.steps] == ["draft", "draft"]


@pytest.mark.parametrize(
    ("plan", "actual", "score"),
    [
        ({"max_steps": 2}, "a b", 1.0),
        ({"max_steps": 2}, "a b c", 0.75),
        ({"max_steps": 2, "no_redundant_calls": False}, "a b c", 0.5),
        ({"max_steps": 9}, "a a a", 0.8),
        ({"no_redundant_calls": True}, "a a a", 0.6),
        ({"steps": ["a", "b"], "forbidden_tools": ["rm"]}, "a", 0.6),
        ({"forbidden_tools": ["rm"]}, "a rm", 0.0),
        ({"forbidden_sequences": [["a", "b"]]}, "x a b", 0.0),
        ({"forbidden_sequences": [["a", "b"]]}, "a x b", 1.0),
        ({"max_retries_per_tool": 1}, "a! a! a! a", 0.6),
        ({"max_retries_per_tool": 1}, "a! b", 1.0),
        ({"steps": ["a"], "max_steps": 1}, "a b", round((0.4 * 1 + 0.3 * 0.5) / 0.7, 2)),
    ],
)
def test_quality_is_the_weighted_mean_of_what_applies(
    plan: dict[str, Any], actual: str, score: float
) -> None:
    assert value(trajectory_quality(plan), run(actual)) == pytest.approx(score)


def test_weights_may_be_changed_one_by_one() -> None:
    plan = {"steps": ["a", "b"], "forbidden_tools": ["rm"]}
    assert value(trajectory_quality(plan, weights={"forbidden": 0.4}), run("a")) == 0.75


def test_nested_plans_weigh_three_tenths() -> None:
    writer = ExpectedStep(name="writer", plan=Plan(steps=["draft", "review"]))
    assert value(trajectory_quality(Plan(steps=["plan", writer])), nested_run()) == 0.85
    lost = ExpectedStep(name="editor", plan=Plan(steps=["draft"]))
    assert value(trajectory_quality(Plan(steps=["plan", lost])), nested_run()) == 0.35
    banned = ExpectedStep(name="writer", plan={"forbidden_tools": ["draft"]})
    assert value(trajectory_quality(Plan(steps=["plan", banned])), nested_run()) == 0.0


def test_a_limit_on_what_was_not_measured_is_not_scored() -> None:
    assert value(trajectory_quality({"max_tokens": 5}), run("a")) == "tokens_not_recorded"
    assert value(trajectory_quality({"max_seconds": 5}), run("a")) == "seconds_not_recorded"
    assert value(trajectory_quality({"max_seconds": 4}), run("a", end_time=6_000_000_000)) == 0.75


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: trajectory_accuracy(expected="ab"), "trajectory_accuracy.expected"),
        (lambda: trajectory_accuracy(expected=[{"nome": "a"}]), "trajectory_accuracy.expected[0].nome"),
        (lambda: trajectory_accuracy(expected=[7]), "trajectory_accuracy.expected[0]"),
        (lambda: trajectory_accuracy(expected=["a"], ordering="loose"), "trajectory_accuracy.ordering"),
        (lambda: trajectory_quality({}), "trajectory_quality.plan"),
        (lambda: trajectory_quality({"max_stepz": 1}), "trajectory_quality.plan.max_stepz"),
        (lambda: trajectory_quality({"max_steps": 0}), "trajectory_quality.plan.max_steps"),
        (lambda: trajectory_quality(Plan(forbidden_tools="rm")), "trajectory_quality.plan.forbidden_tools"),
        (
            lambda: trajectory_quality({"forbidden_sequences": ["ab"]}),
            "trajectory_quality.plan.forbidden_sequences",
        ),
        (lambda: trajectory_quality({"steps": ["a"]}, weights={"luck": 1}), "trajectory_quality.weights"),
    ],
)
def test_what_can_decide_nothing_is_refused(make: Any, field: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make()
    assert refused.value.field == field
