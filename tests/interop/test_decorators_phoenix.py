"""A hand-written agent's spans in a real Phoenix: kinds, messages, tool calls, documents, through its API."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.support.handwritten import support_agent

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
PROJECT = "otel-evals-decorators"
QUESTION = "What does order A-7 cost?"


@pytest.fixture(scope="module")
def spans(phoenix: str) -> dict[str, dict[str, Any]]:
    """What Phoenix holds of one run, by span name; of the model calls, the last."""
    provider = TracerProvider(resource=Resource({"openinference.project.name": PROJECT}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{phoenix}/v1/traces")))
    support_agent(tracer_provider=provider, capture_content=True)(QUESTION)
    provider.shutdown()
    end = time.monotonic() + 60
    found: list[dict[str, Any]] = []
    while time.monotonic() < end and len(found) < 5:
        time.sleep(0.2)
        answer = httpx.get(f"{phoenix}/v1/projects/{PROJECT}/spans")
        found = answer.json()["data"] if answer.is_success else []
    return {span["name"]: span for span in sorted(found, key=lambda span: str(span["start_time"]))}


def test_every_span_has_its_kind(spans: dict[str, dict[str, Any]]) -> None:
    assert {name: span["span_kind"] for name, span in spans.items()} == {
        "invoke_agent support": "AGENT",
        "chat gpt-5-mini": "LLM",
        "execute_tool find_order": "TOOL",
        "retrieval policies": "RETRIEVER",
    }


def test_the_agent_s_input_and_output_are_shown(spans: dict[str, dict[str, Any]]) -> None:
    shown = spans["invoke_agent support"]["attributes"]
    assert shown["llm.input_messages.0.message.content"] == QUESTION
    assert shown["llm.output_messages.0.message.content"] == "Order A-7 costs $12.50; returns are free."
    assert shown["session.id"] == "c-42"


def test_the_model_s_messages_and_tokens_are_shown(spans: dict[str, dict[str, Any]]) -> None:
    shown = spans["chat gpt-5-mini"]["attributes"]
    assert (shown["llm.token_count.prompt"], shown["llm.token_count.completion"]) == (50, 20)
    assert [shown[f"llm.input_messages.{n}.message.role"] for n in range(4)] == [
        "system",
        "user",
        "assistant",
        "tool",
    ]
    called = "llm.input_messages.2.message.tool_calls.0.tool_call."
    assert (shown[called + "id"], shown[called + "function.name"]) == ("call_1", "find_order")
    assert shown["llm.output_messages.0.message.content"] == "Order A-7 costs $12.50; returns are free."


def test_the_tool_call_is_shown_with_arguments_and_result(spans: dict[str, dict[str, Any]]) -> None:
    shown = spans["execute_tool find_order"]["attributes"]
    assert shown["tool.name"] == "find_order"
    assert shown["tool.parameters.order_id"] == "A-7"
    assert json.loads(shown["output.value"]) == {"id": "A-7", "total": 12.5}


def test_the_documents_are_shown_with_the_query(spans: dict[str, dict[str, Any]]) -> None:
    shown = spans["retrieval policies"]["attributes"]
    assert shown["input.value"] == QUESTION
    document = "retrieval.documents.0.document."
    assert shown[document + "content"] == "Returns are free for 30 days."
    assert (shown[document + "id"], shown[document + "score"]) == ("p1", 0.9)
