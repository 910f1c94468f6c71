"""Hand-written agents are read back whole and scored live, alone and among other instrumentations."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from otel_evals import Run
from otel_evals._internal.capture.items import CapturedSpan
from otel_evals._internal.read.runs import find_runs
from otel_evals.conventions import load_conventions
from otel_evals.model import Availability, OperationKind
from otel_evals_instrumentation import agent, inference, retrieval, tool, workflow
from tests.support.handwritten import Recorder, support_agent

ANSWER = "Order A-7 costs $12.50; returns are free."
QUESTION = "What does order A-7 cost?"


def runs_of(spans: tuple[ReadableSpan, ...]) -> list[Run]:
    return find_runs([CapturedSpan(span, 0).record() for span in spans], load_conventions())


def test_our_reader_reads_all_that_the_decorators_wrote() -> None:
    recorder = Recorder()
    support_agent(**recorder.capturing)(QUESTION)
    (run,) = runs_of(recorder.spans)
    assert (run.agent_name, run.agent_version, run.conversation_id) == ("support", "2", "c-42")
    assert (run.input, run.output) == (QUESTION, ANSWER)
    (call,) = run.tool_calls
    assert (call.id, call.name, call.arguments, call.result, call.status, call.source) == (
        "call_1",
        "find_order",
        {"order_id": "A-7"},
        {"id": "A-7", "total": 12.5},
        "ok",
        "both",
    )
    (document,) = run.documents
    assert (document.id, document.content, document.score) == ("p1", "Returns are free for 30 days.", 0.9)
    assert (run.provider, run.models) == ("openai", ("gpt-5-mini-2026-01-01",))
    assert (run.usage.input_tokens, run.usage.output_tokens) == (100, 40)
    assert run.content == "full"
    assert set(run.availability.values()) == {Availability.PRESENT}


def test_without_content_the_run_says_so_and_keeps_its_shape() -> None:
    recorder = Recorder()
    support_agent(capture_content=False, **recorder.options)(QUESTION)
    (run,) = runs_of(recorder.spans)
    assert (run.input, run.output, run.content) == (None, None, "none")
    assert [(call.name, call.arguments) for call in run.tool_calls] == [("find_order", None)]
    assert run.usage.total_tokens == 140


def test_errors_of_tools_and_streams_are_read_back() -> None:
    recorder = Recorder()

    @tool(**recorder.capturing)
    def refund(order_id: str) -> None:
        raise PermissionError("not yours")

    @agent(**recorder.capturing)
    def support(question: str) -> Iterator[str]:
        yield "One mo"
        try:
            refund(order_id="A-7")
        except PermissionError:
            yield "ment: no."

    assert "".join(support("Refund A-7!")) == "One moment: no."
    (run,) = runs_of(recorder.spans)
    (call,) = run.tool_calls
    assert (call.status, call.error, call.error_type) == ("error", "not yours", "PermissionError")
    assert (run.output, run.error) == ("One moment: no.", None)


def test_it_nests_under_and_over_another_instrumentation() -> None:
    """A workflow of ours holds a pydantic-ai agent, whose tool is decorated and calls an agent of ours."""
    from pydantic_ai import Agent, InstrumentationSettings, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    recorder = Recorder()

    @agent("clerk", **recorder.capturing)
    def clerk(order_id: str) -> dict[str, Any]:
        return {"id": order_id, "total": 12.5}

    @tool(**recorder.capturing)
    async def find_order(order_id: str) -> dict[str, Any]:
        return clerk(order_id)

    def model(messages: list[Any], info: Any) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("find_order", {"order_id": "A-7"}, tool_call_id="c1")])
        return ModelResponse(parts=[TextPart("It costs $12.50.")])

    instrumented = InstrumentationSettings(tracer_provider=recorder.provider)
    inner = Agent(FunctionModel(model), name="inner", tools=[find_order])
    inner.instrument = instrumented

    @workflow("shop", **recorder.capturing)
    async def shop(question: str) -> str:
        return (await inner.run(question)).output

    assert asyncio.run(shop(QUESTION)) == "It costs $12.50."
    (run,) = runs_of(recorder.spans)
    assert (run.root_kind, run.input, run.output) == (OperationKind.WORKFLOW, QUESTION, "It costs $12.50.")
    (call,) = run.tool_calls
    assert (call.id, call.name, call.arguments, call.result) == (
        "c1",
        "find_order",
        {"order_id": "A-7"},
        {"id": "A-7", "total": 12.5},
    )


def test_bare_model_calls_and_searches_make_a_run_of_their_own() -> None:
    recorder = Recorder()
    with inference("m", provider="openai", **recorder.capturing) as call:
        call.set_input("Hi")
        with retrieval("kb", **recorder.capturing) as search:
            search.set_documents(["a text"])
        call.set_output("Hello")
    (run,) = runs_of(recorder.spans)
    assert (run.input, run.output, run.root_kind) == ("Hi", "Hello", OperationKind.INFERENCE)
