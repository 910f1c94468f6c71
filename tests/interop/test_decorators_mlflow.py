"""A hand-written agent's spans in a real MLflow: types, inputs, outputs and tokens, through its API."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.support.handwritten import support_agent

pytestmark = [pytest.mark.interop, pytest.mark.timeout(420)]
QUESTION = "What does order A-7 cost?"


@pytest.fixture(scope="module")
def trace(mlflow: str) -> dict[str, Any]:
    """One run as MLflow holds it."""
    exporter = OTLPSpanExporter(f"{mlflow}/v1/traces", headers={"x-mlflow-experiment-id": "0"})
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(exporter))
    ids: list[int] = []
    support = support_agent(tracer_provider=provider, capture_content=True)
    with provider.get_tracer("app").start_as_current_span("POST /chat") as request:
        ids.append(request.get_span_context().trace_id)
        support(QUESTION)
    provider.shutdown()
    end = time.monotonic() + 60
    while time.monotonic() < end:
        answer = httpx.get(
            f"{mlflow}/api/3.0/mlflow/traces/get", params={"trace_id": f"tr-{ids[0]:032x}"}, timeout=30
        )
        if answer.is_success and len(answer.json()["trace"].get("spans", [])) == 6:
            return dict(answer.json()["trace"])
        time.sleep(0.2)
    raise AssertionError(f"the trace did not come: {answer.status_code} {answer.text[:2000]}")


def attributes(trace: dict[str, Any], name: str) -> dict[str, Any]:
    """The attributes of the last span of that name, MLflow's own as the JSON that they are."""
    (*_, span) = [s for s in trace["spans"] if s["name"] == name]
    return {a["key"]: decoded(a["value"]) for a in span["attributes"]}


def decoded(value: dict[str, Any]) -> Any:
    """A value as OTLP spells it out; MLflow writes its own as JSON text."""
    ((kind, content),) = value.items()
    if kind == "kvlist_value":
        return {item["key"]: decoded(item["value"]) for item in content["values"]}
    if kind == "array_value":
        return [decoded(item) for item in content["values"]]
    try:
        return json.loads(content) if isinstance(content, str) else content
    except ValueError:
        return content


def test_every_span_has_its_type(trace: dict[str, Any]) -> None:
    names = ("invoke_agent support", "chat gpt-5-mini", "execute_tool find_order")
    assert [attributes(trace, name)["mlflow.spanType"] for name in names] == ["AGENT", "CHAT_MODEL", "TOOL"]


def test_input_and_output_are_shown(trace: dict[str, Any]) -> None:
    for name, asked in (("invoke_agent support", QUESTION), ("chat gpt-5-mini", QUESTION)):
        shown = attributes(trace, name)
        assert asked in json.dumps(shown["mlflow.spanInputs"])
        assert "Order A-7 costs $12.50" in json.dumps(shown["mlflow.spanOutputs"])


def test_the_tool_call_is_shown_with_arguments_and_result(trace: dict[str, Any]) -> None:
    shown = attributes(trace, "execute_tool find_order")
    assert shown["mlflow.spanInputs"] == {"order_id": "A-7"}
    assert shown["mlflow.spanOutputs"] == {"id": "A-7", "total": 12.5}


def test_model_and_tokens_are_shown(trace: dict[str, Any]) -> None:
    shown = attributes(trace, "chat gpt-5-mini")
    assert shown["mlflow.llm.model"] == "gpt-5-mini-2026-01-01"
    assert shown["mlflow.chat.tokenUsage"] == {"input_tokens": 50, "output_tokens": 20, "total_tokens": 70}
