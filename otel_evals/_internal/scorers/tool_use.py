"""Tool calls: errors, repetitions, and the expected ones. Code only."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby

from otel_evals._internal.model import Direction, NotScored, Run, Score, ToolCall
from otel_evals._internal.scorers.bounds import check_list
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, scorer
from otel_evals._internal.util.plain import as_text, plain_value
from otel_evals.errors import ConfigError

_NO_CALLS = NotScored(reason="no_tool_calls", explanation="the run called no tool")


def tool_error_rate() -> FunctionScorer:
    """The share of executed tool calls that failed; each attempt of a call counts.

    A call failed if its span or message says so, or if its result is an object with a truthy `error`,
    `isError` or `is_error`, as MCP and many tools write it.

    Range: 0..1, lower is better. Labels: `failed`, `ok`. Formula: failed executions / executions.
    Needs: tool calls; results for errors that appear only there.
    Not scored: `no_tool_calls`.
    Cost: none; microseconds.
    """

    @scorer(id="tool_error_rate", inline=True, direction=Direction.LOWER)
    def tool_error_rate(run: Run) -> Score | NotScored:
        executed = [each for call in run.tool_calls for each in call.attempts or (call,)]
        return _share([call for call in executed if has_failed(call)], run, "failed", len(executed))

    return tool_error_rate


def unrecovered_tool_errors() -> FunctionScorer:
    """The share of failed tool calls without a later successful call of the same tool.

    A call with several attempts failed if the last one did.

    Range: 0..1, lower is better. Labels: `unrecovered`, `ok`.
    Formula: failed calls after which the same tool did not succeed / failed calls; 0 if none failed.
    Needs: tool calls.
    Not scored: `no_tool_calls`.
    Cost: none; microseconds.
    """

    @scorer(id="unrecovered_tool_errors", inline=True, direction=Direction.LOWER)
    def unrecovered_tool_errors(run: Run) -> Score | NotScored:
        failed = [(i, call) for i, call in enumerate(run.tool_calls) if has_failed(call)]
        # Later entries replace earlier ones, so the last success of each tool remains.
        last_success = {call.name: i for i, call in enumerate(run.tool_calls) if not has_failed(call)}
        lost = [call for i, call in failed if last_success.get(call.name, -1) < i]
        return _share(lost, run, "unrecovered", len(failed))

    return unrecovered_tool_errors


def has_failed(call: ToolCall) -> bool:
    """Return True if a tool call failed, by its status or its result."""
    if call.status == "error" or call.error is not None:
        return True
    result = call.result
    return isinstance(result, Mapping) and any(result.get(key) for key in ("error", "isError", "is_error"))


def _share(wrong: list[ToolCall], run: Run, label: str, total: int) -> Score | NotScored:
    if not run.tool_calls:
        return _NO_CALLS
    names = ", ".join(dict.fromkeys(call.name for call in wrong))
    explanation = f"{len(wrong)} of {total} {label}: {names}" if wrong else f"none of {total} {label}"
    return Score(
        value=len(wrong) / total if total else 0.0, label=label if wrong else "ok", explanation=explanation
    )


_MOST_CHARS = 20_000


def repeated_calls(*, loop_from: int = 3) -> FunctionScorer:
    """The share of tool calls that repeat an earlier call: the same tool with the same arguments.

    An unchanged call after a failed one is a repetition too, as it is in loops. Calls without recorded
    arguments never repeat.

    Range: 0..1, lower is better. Labels: `loop` if one call was made `loop_from` times in a row, else
    `repeated` or `ok`.
    Formula: calls that repeat an earlier one / calls.
    Needs: tool calls with their arguments.
    Not scored: `no_tool_calls`; `tool_arguments_not_recorded` if no call has its arguments.
    Cost: none; microseconds.

    Raises:
        ConfigError: `loop_from` is less than 2.
    """
    if loop_from < 2:
        raise ConfigError("repeated_calls.loop_from", f"must be at least 2, not {loop_from!r}")

    @scorer(id="repeated_calls", inline=True, direction=Direction.LOWER)
    def repeated_calls(run: Run) -> Score | NotScored:
        if not run.tool_calls:
            return _NO_CALLS
        if all(call.arguments is None for call in run.tool_calls):
            return NotScored(
                reason="tool_arguments_not_recorded",
                explanation="no call tells its arguments: turn on content capture in the instrumentation",
            )
        return _repetition([_same(call, i) for i, call in enumerate(run.tool_calls)], loop_from)

    return repeated_calls


def _same(call: ToolCall, place: int) -> tuple[str, str]:
    """Return a key that is equal for equal calls; calls with too large arguments equal no other call."""
    arguments = None if call.arguments is None else as_text(call.arguments, _MOST_CHARS)
    if arguments is None or len(arguments) > _MOST_CHARS:
        return call.name, f"call {place}"
    # Sorted: the same arguments in another order are the same call.
    return call.name, json.dumps(plain_value(call.arguments), sort_keys=True)


def _repetition(calls: list[tuple[str, str]], loop_from: int) -> Score:
    repeats = len(calls) - len(set(calls))
    # An agent that alternates between two calls is in no loop.
    in_a_row = max(len(list(group)) for _, group in groupby(calls))
    (name, _), times = Counter(calls).most_common(1)[0]
    explanation = f"{name} was called {times} times with the same arguments" if repeats else "no call repeats"
    label = "loop" if in_a_row >= loop_from else "repeated" if repeats else "ok"
    return Score(value=repeats / len(calls), label=label, explanation=explanation)


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
    if expected_order is None and not expected_tool:
        raise ConfigError("tool_call_accuracy.expected_tool", "give expected_tool or expected_order")
    order = [] if expected_order is None else tool_names("tool_call_accuracy.expected_order", expected_order)

    def expected_of(run: Run) -> list[str]:
        if order:
            return order
        name = expected_tool(run) if callable(expected_tool) else expected_tool
        return [] if name is None else [name]

    @scorer(id="tool_call_accuracy", inline=True)
    def tool_call_accuracy(run: Run) -> Score | NotScored:
        expected = expected_of(run)
        if not expected:
            return NotScored(reason="no_expectation", explanation="no tool is expected of this run")
        actual = [call.name for call in run.tool_calls]
        passed = actual == expected if strict else is_subsequence(expected, actual)
        label = "correct" if passed else "incorrect" if actual else "no_tool_calls"
        explanation = f"expected {', '.join(expected)}; called {', '.join(actual) or 'no tool'}"
        return Score(value=float(passed), label=label, explanation=explanation)

    return tool_call_accuracy


def tool_names(field: str, names: Sequence[str]) -> list[str]:
    """Return names of the configuration; raise ConfigError if there are none."""
    if not check_list(field, names):
        raise ConfigError(field, "must be a list with at least one tool name")
    return list(names)


def is_subsequence(wanted: Iterable[str], names: Iterable[str]) -> bool:
    # One iterator for all names: each search continues after the last match.
    rest = iter(names)
    return all(name in rest for name in wanted)
