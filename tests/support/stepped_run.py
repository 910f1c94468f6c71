"""A run with operations: an agent whose model calls a tool and misreads its result."""

from __future__ import annotations

from typing import Any

from otel_evals.model import Message, Operation, OperationKind, Part, Run, SpanRecord, ToolCall
from tests.support.runs import message

TRACE = "1" * 32


def span_id(number: int) -> str:
    """The span id of a step."""
    return f"{number:016x}"


def operation(number: int, kind: OperationKind, **fields: Any) -> Operation:
    span = SpanRecord(trace_id=TRACE, span_id=span_id(number), start_time=number * 10**9)
    return Operation(span=span, kind=kind, convention="test", **fields)


def calls(name: str, arguments: Any) -> Message:
    return Message(role="assistant", parts=(Part(kind="tool_call", name=name, data=arguments),))


USER, ASKS, ANSWER = message("user", "When?"), calls("orders", {"id": 7}), message("assistant", "On Friday.")
RESULT = Message(role="tool", parts=(Part(kind="tool_result", name="orders", data={"ships": "Monday"}),))
RUN = Run(
    trace_id=TRACE,
    root_span_id=span_id(1),
    root_kind=OperationKind.AGENT,
    operations=(
        operation(1, OperationKind.AGENT, name="shop", input_messages=(USER,), output_messages=(ANSWER,)),
        operation(
            2,
            OperationKind.INFERENCE,
            system_instructions="Be brief.",
            input_messages=(USER,),
            output_messages=(ASKS,),
        ),
        operation(
            3,
            OperationKind.TOOL,
            name="orders",
            tool_call=ToolCall(name="orders", arguments={"id": 7}, result={"ships": "Monday", "usd": 4}),
        ),
        operation(
            4, OperationKind.INFERENCE, input_messages=(USER, ASKS, RESULT, USER), output_messages=(ANSWER,)
        ),
    ),
    children={span_id(1): (span_id(2), span_id(3), span_id(4))},
    output="On Friday.",
)
