"""Failed tool calls, and recovery from them. Code only."""

from __future__ import annotations

from collections.abc import Mapping

from otel_evals._internal.model import Direction, NotScored, Run, Score, ToolCall
from otel_evals._internal.scoring.scorer import FunctionScorer, scorer


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
        failed = [call for call in executed if has_failed(call)]
        return _share(failed, run, "failed", len(executed))

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


def _share(wrong: list[ToolCall], run: Run, label: str, of: int | None = None) -> Score | NotScored:
    total = len(run.tool_calls) if of is None else of
    if not run.tool_calls:
        return NotScored(reason="no_tool_calls", explanation="the run called no tool")
    names = ", ".join(dict.fromkeys(call.name for call in wrong))
    explanation = f"{len(wrong)} of {total} {label}: {names}" if wrong else f"none of {total} {label}"
    return Score(
        value=len(wrong) / total if total else 0.0, label=label if wrong else "ok", explanation=explanation
    )
