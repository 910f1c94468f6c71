"""Checks that the expected tools were called. Code only; tool_call_judge is the judge's form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from otel_evals._internal.model import NotScored, Run, Score
from otel_evals._internal.scoring.scorer import FunctionScorer, scorer
from otel_evals.errors import ConfigError

Expectation = str | Callable[[Run], str | None]
"""A tool's name, or a function from a run to the name of the expected tool, None for any."""


def tool_call_accuracy(
    *,
    expected_tool: Expectation | None = None,
    expected_order: Sequence[str] | None = None,
    strict: bool = False,
) -> FunctionScorer:
    """Score 1 if the expected tool was called, or the expected tools in their order.

    With `expected_tool` a run passes if that tool is among its calls, and with `strict` if it is called
    exactly once and nothing else is. For live traffic with different requests, a function of the run names
    the tool, such as `lambda run: "refund" if "money back" in (run.input or "") else None`.

    With `expected_order` a run passes if those names are a subsequence of its calls (with any others
    between, repeated ones counted one by one), and with `strict` if they are exactly its calls.
    `expected_tool` has no effect next to an order.

    Range: 0 or 1, higher is better. Labels: `correct`, `incorrect`, `no_tool_calls`.
    Formula: as above, over all tool calls of the run in the order they began, including failed ones.
    Source: the code tool-call scorer of Mastra's evals, fixed for repeated names.
    Needs: nothing; a run without tool calls scores 0.
    Not scored: `no_expectation` if the function names no tool.
    Cost: none; microseconds.

    Raises:
        ConfigError: neither an expected tool nor an order is given, or the order is empty or no list.
    """
    order = _checked(expected_tool, expected_order)

    @scorer(id="tool_call_accuracy", inline=True)
    def tool_call_accuracy(run: Run) -> Score | NotScored:
        expected = order if order is not None else _expected(expected_tool, run)
        if expected is None:
            return NotScored(reason="no_expectation", explanation="no tool is expected of this run")
        actual = [call.name for call in run.tool_calls]
        exact = strict and actual == list(expected)
        return _score(exact or (not strict and _is_subsequence(expected, actual)), expected, actual)

    return tool_call_accuracy


def _checked(tool: Expectation | None, order: Sequence[str] | None) -> tuple[str, ...] | None:
    if order is None:
        if not tool:
            raise ConfigError("tool_call_accuracy.expected_tool", "give expected_tool or expected_order")
        return None
    if isinstance(order, str) or not order:
        raise ConfigError("tool_call_accuracy.expected_order", "must be a list with at least one tool name")
    return tuple(order)


def _expected(tool: Expectation | None, run: Run) -> tuple[str, ...] | None:
    name = tool(run) if callable(tool) else tool
    return None if name is None else (name,)


def _is_subsequence(wanted: Iterable[str], names: Iterable[str]) -> bool:
    rest = iter(names)
    return all(name in rest for name in wanted)


def _score(passed: bool, expected: Sequence[str], actual: Sequence[str]) -> Score:
    called = ", ".join(actual) or "no tool"
    label = "correct" if passed else "incorrect" if actual else "no_tool_calls"
    return Score(
        value=float(passed), label=label, explanation=f"expected {', '.join(expected)}; called {called}"
    )
