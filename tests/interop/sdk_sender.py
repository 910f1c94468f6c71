"""Sends one score with a vendor's SDK. Runs in the SDKs' environment: sdk_sender.py NAME URL FACTS."""

from __future__ import annotations

import json
import os
import sys
from datetime import datetime
from typing import Any

Facts = dict[str, Any]


def langfuse(url: str, facts: Facts) -> None:
    from langfuse import Langfuse

    sdk = Langfuse(public_key="pk-1", secret_key=facts["key"], base_url=url, tracing_enabled=True)
    common = {
        "trace_id": facts["trace_id"],
        "observation_id": facts["span_id"],
        "comment": facts["explanation"],
        "metadata": facts["metadata"],
        "timestamp": datetime.fromisoformat(facts["timestamp"]),
    }
    number, label = facts["id"], f"{facts['id']}-label"
    sdk.create_score(name=facts["name"], value=facts["value"], score_id=number, data_type="NUMERIC", **common)
    name = f"{facts['name']}.label"
    sdk.create_score(name=name, value=facts["label"], score_id=label, data_type="CATEGORICAL", **common)
    sdk.flush()


def langsmith(url: str, facts: Facts) -> None:
    from langsmith import Client
    from langsmith.integrations.otel import langsmith_run_id_from_otel_span_id

    Client(api_url=f"{url}/api/v1", api_key=facts["key"]).create_feedback(
        run_id=langsmith_run_id_from_otel_span_id(int(facts["span_id"], 16)),
        key=facts["name"],
        score=facts["value"],
        value=facts["label"],
        comment=facts["explanation"],
        feedback_id=facts["uuid"],
        feedback_source_type="model",
        source_info=facts["metadata"],
        session_id=facts["project_id"],
        start_time=datetime.fromisoformat(facts["start_time"]),
        extend_trace_retention=False,
    )


def datadog(url: str, facts: Facts) -> None:
    os.environ |= {
        "DD_TRACE_AGENT_URL": url,
        "DD_REMOTE_CONFIGURATION_ENABLED": "0",
        "DD_API_KEY": facts["key"],
    }
    os.environ |= {"DD_INSTRUMENTATION_TELEMETRY_ENABLED": "0", "_DD_LLMOBS_WRITER_INTERVAL": "0.1"}
    from ddtrace.llmobs import LLMObs

    LLMObs.enable(ml_app=facts["service"], agentless_enabled=False, integrations_enabled=False)
    for kind, label, value in (
        ("score", facts["name"], facts["value"]),
        ("categorical", f"{facts['name']}_label", facts["label"]),
    ):
        LLMObs.submit_evaluation(
            label=label,
            metric_type=kind,
            value=value,
            span={"span_id": facts["span_id_decimal"], "trace_id": facts["trace_id_decimal"]},
            tags={"source": "otel"},
            ml_app=facts["service"],
            timestamp_ms=facts["time"] // 1_000_000,
            metadata=facts["metadata"],
            reasoning=facts["explanation"],
        )
    LLMObs.flush()
    LLMObs.disable()


def opik(url: str, facts: Facts) -> None:
    import opik

    sdk = opik.Opik(project_name="shop", workspace="w", host=url, api_key=facts["key"])
    score = {"id": facts["opik_trace"], "name": facts["name"], "value": facts["value"]}
    score |= {"category_name": facts["label"], "reason": facts["explanation"]}
    sdk.log_traces_feedback_scores([score], project_name="shop")
    sdk.end()


def arize(url: str, facts: Facts) -> None:
    from arize._generated.api_client import ApiClient, Configuration, SpansApi
    from arize._generated.api_client.models.annotate_spans_request import AnnotateSpansRequest

    value = {
        "name": facts["name"],
        "score": facts["value"],
        "label": facts["label"],
        "text": facts["explanation"],
    }
    body = {
        "project_id": "p1",
        "granularity": "SPAN",
        "annotations": [{"record_id": facts["span_id"], "values": [value]}],
    }
    client = ApiClient(Configuration(host=url, access_token=facts["key"]))
    SpansApi(client).annotate_spans(AnnotateSpansRequest.from_dict(body))


def mlflow(url: str, facts: Facts) -> None:
    import mlflow
    from mlflow.entities import AssessmentSource

    mlflow.set_tracking_uri(url)
    given = {
        "source": AssessmentSource(source_type="LLM_JUDGE", source_id=f"otel-evals/{facts['name']}"),
        "rationale": facts["explanation"],
        "metadata": {key: str(value) for key, value in facts["metadata"].items()},
    }
    trace, name = f"tr-{facts['trace_id']}", facts["name"]
    mlflow.log_feedback(trace_id=trace, name=name, value=facts["value"], **given)
    mlflow.log_feedback(trace_id=trace, name=f"{name}.label", value=facts["label"], **given)


def weave(url: str, facts: Facts) -> None:
    from weave.trace_server_bindings.remote_http_trace_server import RemoteHTTPTraceServer

    payload = {
        "name": facts["name"],
        "value": facts["value"],
        "label": facts["label"],
        "explanation": facts["explanation"],
        "trace_id": facts["trace_id"],
        "timestamp": facts["timestamp"],
        "metadata": facts["metadata"],
    }
    feedback = {
        "id": facts["uuid"],
        "project_id": "e/p",
        "weave_ref": f"weave:///e/p/call/{facts['span_id']}",
        "creator": "otel-evals",
        "feedback_type": f"otel_evals.{facts['name']}",
        "payload": payload,
    }
    RemoteHTTPTraceServer(url, username="api", password=facts["key"]).feedback_create(feedback)


def braintrust(url: str, facts: Facts) -> None:
    os.environ["BRAINTRUST_API_URL"] = url
    from braintrust.otel import OtelExporter

    exporter = OtelExporter(api_key=facts["key"], parent="project_name:p")
    exporter.export([_span(facts, facts["score_span"])])
    exporter.shutdown()


def posthog(url: str, facts: Facts) -> None:
    from posthog.ai.otel import PostHogTraceExporter

    exporter = PostHogTraceExporter(api_key=facts["key"], host=url)
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support"}
    exporter.export([_span(facts, {"name": "invoke_agent support", "attributes": attributes})])
    exporter.shutdown()


def _span(facts: Facts, told: Facts) -> Any:
    """A span below the judged one, as the exporters get it from OpenTelemetry's SDK."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

    def context(span_id: str) -> SpanContext:
        return SpanContext(int(facts["trace_id"], 16), int(span_id, 16), False, TraceFlags(1))

    return ReadableSpan(
        name=told["name"],
        context=context(told.get("span_id", "b7ad6b7169203331")),
        parent=context(facts["span_id"]),
        resource=Resource({"service.name": facts["service"]}),
        attributes=told["attributes"],
        kind=SpanKind.INTERNAL,
        instrumentation_scope=InstrumentationScope("otel_evals"),
        start_time=facts["time"],
        end_time=facts["time"],
    )


if __name__ == "__main__":
    _, name, url, given = sys.argv
    globals()[name](url, json.loads(given))
