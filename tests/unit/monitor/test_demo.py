"""The demo's traffic: varied, repeatable, and wrong exactly where the truth says so."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals.model import Message, OperationKind, Part, Run
from otel_evals_monitor._internal.demo.agent import FIELDS, Fault, Truth, converse, plan
from otel_evals_monitor._internal.demo.main import handbook


@pytest.fixture(scope="module")
def held() -> Iterator[tuple[list[Truth], InMemorySpanExporter]]:
    """Two hundred questions, really asked, with the agent's spans."""
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    truths: list[Truth] = []
    try:
        asyncio.run(converse(*plan(200, seed=8), truths.append, at_once=50, think=0))
    finally:
        Agent.instrument_all(False)
    yield truths, spans
    provider.shutdown()


def test_the_same_seed_plans_the_same_questions() -> None:
    assert plan(400, seed=5) == plan(400, seed=5)
    assert plan(400, seed=5) != plan(400, seed=6)
    questions, orders = plan(400, seed=5)
    assert len(questions) == len(orders) == 400
    assert {each.fault for each in questions} == {None, *Fault}
    assert {each.tool for each in questions} == set(FIELDS)


def test_the_handbook_knows_the_tool_of_every_question() -> None:
    def run(text: str) -> Run:
        said = Message(role="user", parts=(Part(kind="text", text=text),))
        return Run(
            trace_id="1" * 32,
            root_span_id="2" * 16,
            root_kind=OperationKind.AGENT,
            start_time=0,
            input_messages=(said,),
        )

    assert all(handbook(run(each.text)) == each.tool for each in plan(300, seed=1)[0])


def test_every_planted_fault_really_happens(held: tuple[list[Truth], InMemorySpanExporter]) -> None:
    truths, spans = held
    assert len({truth.trace_id for truth in truths}) == 200
    assert {f"{span.context.trace_id:032x}" for span in spans.get_finished_spans() if span.context} == {
        truth.trace_id for truth in truths
    }
    found = Counter(truth.fault for truth in truths)
    planned = Counter(each.fault for each in plan(200, seed=8)[0])
    assert found == planned
    assert all((truth.slip is None) == (truth.fault is None) for truth in truths)


def test_a_failed_tool_is_admitted_unless_it_is_glossed_over(
    held: tuple[list[Truth], InMemorySpanExporter],
) -> None:
    questions, orders = plan(200, seed=8)
    failing = {each.text for each in questions if orders[each.order_id]["fails"]}
    sorry = re.compile("sorry|unable|unfortunately", re.IGNORECASE)
    for truth in held[0]:
        admitted = sorry.search(truth.answer) is not None
        assert admitted == (truth.question in failing and truth.fault is None)
