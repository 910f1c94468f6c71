"""What pipelines do to spans: texts cut off, masked contents, numbers as texts, events as log records."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals_instrumentation._internal.readers.values import parse_or_repair
from tests.support.facts import Case, case, missed, span

J = json.dumps
KIND = "openinference.span.kind"
ASKED, MASK, PROBLEM = "Is the red boat free?", "[REDACTED]", "no such boat"
DEEP = {"id": "c1", "type": "function", "function": {"name": "[MaxDepth]", "arguments": "[MaxDepth]"}}
COUNTS = {"prompt_tokens": 9, "cached_prompt_tokens": 4, "completion_tokens": 2}
TOOL = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
RAISED = ("exception", {"exception.type": "LookupError", "exception.message": PROBLEM}, None)


@pytest.mark.parametrize(
    ("cut", "whole"),
    [
        ('{"boat": "re', {"boat": "re"}),
        ('{"boat": "red", "da', {"boat": "red"}),
        ('{"boat": "red", "day"', {"boat": "red"}),
        ('{"boat": "red", "day": ', {"boat": "red"}),
        ('{"boat": "red", "price": 12', {"boat": "red"}),
        ('{"boat": "red", "free": tru', {"boat": "red"}),
        ('{"bo', {}),
        ('{"price": 12', {}),
        ('{"boat": {"name": "red"}, "da', {"boat": {"name": "red"}}),
        ('{"boat": {"price": 1', {"boat": {}}),
        ('[{"boat": "red"}, {"boat": "bl', [{"boat": "red"}, {"boat": "bl"}]),
        ('[{"boat": "red"}, {"bo', [{"boat": "red"}, {}]),
        ("[1, 22, 3", [1, 22]),
        ('[{"boat": "red"}', [{"boat": "red"}]),
    ],
)
def test_json_that_was_cut_off_gives_what_was_whole(cut: str, whole: Any) -> None:
    """No key without a value, no value that was not recorded, and no number that may have gone on."""
    assert parse_or_repair(cut) == (whole, True)


EVENTS = [
    case(
        "OpenTelemetry: a tool's exception as a log record",
        span("agent", {"gen_ai.operation.name": "invoke_agent"}),
        span("execute_tool look", TOOL, logs=[RAISED]),
        tools=[("look", None, None, "error")],
    ),
    case(
        "OpenInference: an output that repeats an exception in a log record",
        span(
            "ChatCompletion",
            {
                KIND: "LLM",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": ASKED,
                "output.value": f"LookupError: {PROBLEM}",
            },
            status="ERROR",
            logs=[RAISED],
        ),
        input=ASKED,
        output=None,
        error=PROBLEM,
    ),
    case(
        "Monocle: all events as log records",
        span(
            "create",
            {"span.type": "inference"},
            scope="monocle_apptrace",
            logs=[("data.input", {"input": [J({"user": ASKED})]}, None)],
        ),
        input=ASKED,
    ),
]
FAILED = [
    case(
        f"{product}: a finish reason is the only trace of an error",
        span("chat m1", {**attributes, "gen_ai.response.finish_reasons": reasons}),
        error="error",
    )
    for product, attributes, reasons in (
        ("Mastra", {"mastra.span.type": "model_generation", "gen_ai.request.model": "m1"}, "error"),
        ("OpenTelemetry", {"gen_ai.operation.name": "chat"}, ["error"]),
    )
]
NUMBERS = [
    case(
        "Langfuse: counts as texts",
        span(
            "ask",
            {
                "langfuse.observation.type": "generation",
                "langfuse.observation.input": ASKED,
                "langfuse.observation.usage_details": {"input": "9", "output": "2"},
            },
        ),
        usage=(9, 2),
    ),
    *(
        case(
            f"{product}: counts in a Python literal",
            span(
                "crewai.workflow",
                {
                    "gen_ai.operation.name": operation,
                    key: str(COUNTS),
                },
                scope=scope,
            ),
            span("clerk.agent", {"traceloop.span.kind": "agent"}),
            usage=(9, 2),
            cached=4,
        )
        for product, operation, key, scope in (
            (
                "CrewAI through OpenLLMetry",
                "invoke_agent",
                "crewai.crew.usage_metrics",
                "opentelemetry.instrumentation.crewai",
            ),
            ("OpenTelemetry", "chat", "gen_ai.usage", "my.app"),
        )
    ),
    case(
        "Monocle: the same in an event",
        span(
            "create",
            {"span.type": "inference"},
            scope="monocle_apptrace",
            events=[
                ("data.input", {"input": [J({"user": ASKED})]}),
                ("metadata", {"prompt_tokens": "9", "completion_tokens": "2"}),
            ],
        ),
        usage=(9, 2),
    ),
]
MASKS = [
    case(
        "Strands: masks in the events of a tool",
        span("agent", {"gen_ai.operation.name": "invoke_agent"}),
        span(
            "execute_tool look",
            TOOL,
            events=[("gen_ai.tool.message", {"content": MASK}), ("gen_ai.choice", {"message": MASK})],
        ),
        tools=[("look", None, None, "unknown")],
    ),
    case(
        "OpenInference: a mask as the plain input of an agent",
        span(
            "desk",
            {
                KIND: "AGENT",
                "input.value": MASK,
                "input.mime_type": "text/plain",
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": MASK,
            },
        ),
        input=None,
    ),
    *(
        case(
            f"{product}: a call that was too deep for its serializer",
            span("app", {}),
            span("step", {**attributes, key: J([{"role": "assistant", "tool_calls": [DEEP]}])}),
            tools=[],
        )
        for product, attributes, key in (
            (
                "Mastra",
                {"mastra.span.type": "model_step", "gen_ai.request.model": "m1"},
                "gen_ai.input.messages",
            ),
            ("Langfuse", {"langfuse.observation.type": "generation"}, "langfuse.observation.input"),
        )
    ),
    case(
        "Monocle: masks in a list",
        span(
            "create",
            {"span.type": "inference"},
            scope="monocle_apptrace",
            events=[("data.input", {"input": [MASK, MASK]}), ("data.output", {"response": MASK})],
        ),
        input=None,
        output=None,
    ),
]


@pytest.mark.parametrize("told", [*EVENTS, *FAILED, *NUMBERS, *MASKS], ids=lambda told: told.name)
def test_it_is_read(told: Case) -> None:
    assert list(missed(told)) == []
