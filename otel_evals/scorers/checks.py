"""Small yes-or-no checks of an answer and of the tools used."""

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
