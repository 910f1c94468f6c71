"""Runs made by hand, for tests of scorers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from otel_evals.model import Message, OperationKind, Part, Run, ToolCall


def message(role: str, text: str) -> Message:
    return Message(role=role, parts=(Part(kind="text", text=text),))


def a_run(
    output: str | None = "Order 7 ships on Friday.",
    user: str | None = "When does order 7 ship?",
    *,
    tools: Sequence[ToolCall] = (),
    history: Sequence[tuple[str, str]] = (),
    **fields: Any,
) -> Run:
    return Run(
        trace_id="1" * 32,
        root_span_id="2" * 16,
        root_kind=OperationKind.AGENT,
        input_messages=() if user is None else (message("user", user),),
        output=output,
        output_messages=() if output is None else (message("assistant", output),),
        tool_calls=tuple(tools),
        history=tuple(message(role, text) for role, text in history),
        **fields,
    )


def tool(name: str, result: Any = None, **fields: Any) -> ToolCall:
    return ToolCall(name=name, result=result, status="error" if "error" in fields else "ok", **fields)
