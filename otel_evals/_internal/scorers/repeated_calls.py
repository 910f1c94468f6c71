"""Detects loops: tool calls repeated with the same arguments. Code only."""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby

from otel_evals._internal.model import Direction, NotScored, Run, Score, ToolCall
from otel_evals._internal.scoring.scorer import FunctionScorer, scorer
from otel_evals._internal.util.plain import as_text, plain_value
from otel_evals.errors import ConfigError

_MOST = 20_000


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
            return NotScored(reason="no_tool_calls", explanation="the run called no tool")
        if all(call.arguments is None for call in run.tool_calls):
            return NotScored(
                reason="tool_arguments_not_recorded",
                explanation="no call tells its arguments: turn on content capture in the instrumentation",
            )
        return _score([_same(call, i) for i, call in enumerate(run.tool_calls)], loop_from)

    return repeated_calls


def _same(call: ToolCall, place: int) -> tuple[str, str]:
    """Return a key that is equal for equal calls; calls with too large arguments equal no other call."""
    if call.arguments is None:
        return call.name, f"call {place}"
    arguments = as_text(call.arguments, _MOST)
    if isinstance(call.arguments, str) or len(arguments) > _MOST:
        return call.name, arguments if len(arguments) <= _MOST else f"call {place}"
    return call.name, json.dumps(plain_value(call.arguments), sort_keys=True)


def _score(calls: list[tuple[str, str]], loop_from: int) -> Score:
    repeats = len(calls) - len(set(calls))
    in_a_row = max(len(list(group)) for _, group in groupby(calls))
    (name, _), times = Counter(calls).most_common(1)[0]
    explanation = f"{name} was called {times} times with the same arguments" if repeats else "no call repeats"
    label = "loop" if in_a_row >= loop_from else "repeated" if repeats else "ok"
    return Score(value=repeats / len(calls), label=label, explanation=explanation)
