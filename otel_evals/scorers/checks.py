"""Small yes-or-no checks of an answer and of the tools used. Code only.

Each scores 1 or 0, higher is better, with the label `true` or `false`, and costs microseconds. Rules need
distinct ids: give `id` where a check is used twice. Checks of the answer are not scored where it is missing
(`output_not_recorded`, `output_captured_off`, `output_empty`) or longer
than 200,000 characters (`output_too_long`). Source: the checks of Mastra's evals, which
look at all of the assistant's messages; these look at the final answer.
"""

from __future__ import annotations

from otel_evals._internal.scorers.checks import (
    called_tool,
    did_not_call,
    equals,
    excludes,
    includes,
    matches,
    max_tool_calls,
    no_tool_errors,
    similarity,
    tool_order,
    used_no_tools,
)

__all__ = [
    "called_tool",
    "did_not_call",
    "equals",
    "excludes",
    "includes",
    "matches",
    "max_tool_calls",
    "no_tool_errors",
    "similarity",
    "tool_order",
    "used_no_tools",
]
