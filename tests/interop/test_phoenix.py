"""Scores in a real Phoenix: read back through its API, and seen on the trace's page in a real browser."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from typer.testing import CliRunner

from otel_evals._internal.cli.app import app
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals.destinations import DestinationStats
from otel_evals.model import OperationKind, Run, Score, ScoredRun
from otel_evals_exporters.phoenix import PhoenixDestination
from tests.support.browser import CHROMIUM, browser_page, picture
from tests.support.phoenix_page import open_annotations
from tests.support.replacing import replace
from tests.support.scored import OUTCOMES, evaluation

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]
PROJECT = "otel-evals-interop"
CONVERSATION = "conversation-of-ann"


def serve_one_customer(phoenix: str) -> Run:
    """One answered question, as an agent behind an HTTP server leaves it in OpenTelemetry's own words."""
    provider = TracerProvider(
        resource=Resource({"service.name": "shop", "openinference.project.name": PROJECT})
    )
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{phoenix}/v1/traces")))
    tracer = provider.get_tracer("shop.agents")
    with (
        tracer.start_as_current_span("POST /chat"),
        tracer.start_as_current_span("invoke_agent support", attributes=operation("invoke_agent")) as agent,
    ):
        context = agent.get_span_context()
        agent.set_attribute("gen_ai.input.messages", message("user", "What does order 1042 cost?"))
        with tracer.start_as_current_span(
            "execute_tool find_order", attributes=operation("execute_tool")
        ) as tool:
            tool.set_attribute("gen_ai.tool.name", "find_order")
            tool.set_attribute("gen_ai.tool.call.result", json.dumps({"id": 1042, "total": "$15.20"}))
        with tracer.start_as_current_span("chat gpt-5-mini", attributes=operation("chat")) as chat:
            chat.set_attribute("gen_ai.request.model", "gpt-5-mini")
        agent.set_attribute("gen_ai.output.messages", message("assistant", "Order 1042 costs $12.50."))
    provider.shutdown()
    return Run(
        trace_id=f"{context.trace_id:032x}",
        root_span_id=f"{context.span_id:016x}",
        root_kind=OperationKind.AGENT,
        agent_name="support",
    )


def operation(name: str) -> dict[str, str]:
    who = {"gen_ai.agent.name": "support", "gen_ai.conversation.id": CONVERSATION}
    return {"gen_ai.operation.name": name, "gen_ai.provider.name": "openai", **who}


def message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def scored(run: Run, **outcomes: Score) -> ScoredRun:
    return ScoredRun(
        run=run,
        evaluations=tuple(
            evaluation(scorer, outcome, trace_id=run.trace_id, span_id=run.root_span_id)
            for scorer, outcome in (outcomes or OUTCOMES).items()
        ),
    )


def deliver(phoenix: str, *runs: ScoredRun) -> None:
    async def send() -> DestinationStats:
        fan_out = FanOut([PhoenixDestination(url=phoenix)])
        for run in runs:
            fan_out.put(run)
        await fan_out.shutdown(20.0)
        return fan_out.stats()["phoenix"]

    assert anyio.run(send) == DestinationStats(exported=len(runs))


Annotations = list[dict[str, Any]]


def read_back(
    phoenix: str, run: Run, ready: Callable[[Annotations], object], of: str = "span"
) -> Annotations:
    """The annotations of the run's root span, or its trace, by name, once they are what is waited for."""
    query = {"span_ids": run.root_span_id} if of == "span" else {"trace_ids": run.trace_id}
    found: Annotations = []
    end = time.monotonic() + 60
    while time.monotonic() < end:
        answer = httpx.get(f"{phoenix}/v1/projects/{PROJECT}/{of}_annotations", params=query)
        found = sorted(answer.json()["data"], key=lambda a: a["name"]) if answer.is_success else []
        if ready(found):
            return found
        time.sleep(0.2)
    raise AssertionError(f"not what was waited for: {found}")


def test_scores_arrive_whole_even_before_their_span(phoenix: str) -> None:
    ahead = scored(serve_one_customer(phoenix))
    deliver(phoenix, ahead)
    hallucination, keywords = read_back(phoenix, ahead.run, lambda found: len(found) == 2)
    assert (hallucination["name"], keywords["name"]) == ("hallucination", "keyword_coverage")
    assert hallucination["result"] == {
        "score": 0.25,
        "label": "unsupported",
        "explanation": "$12.50 is in no tool result",
    }
    assert (hallucination["annotator_kind"], keywords["annotator_kind"]) == ("LLM", "CODE")
    assert keywords["result"] == {"score": 1.0, "label": None, "explanation": None}
    assert hallucination["metadata"]["sampling_probability"] == 0.25
    assert hallucination["metadata"]["judge_cost_usd"] == 0.00042
    assert hallucination["metadata"]["evaluation_id"] == ahead.evaluations[0].evaluation_id


@pytest.mark.parametrize("of", ["span", "trace"])
def test_a_score_sent_twice_stands_there_once_with_its_last_value(phoenix: str, of: str) -> None:
    run = serve_one_customer(phoenix)
    deliver(phoenix, scored(run, tone=Score(value=0.5)))
    (first,) = read_back(phoenix, run, len, of)
    deliver(phoenix, scored(run, tone=Score(value=0.5)), scored(run, tone=Score(value=0.75)))
    (last,) = read_back(phoenix, run, lambda found: [a["result"]["score"] for a in found] == [0.75], of)
    assert last["id"] == first["id"]


def test_a_conversation_s_score_stands_on_its_session(phoenix: str) -> None:
    """Phoenix makes sessions of `gen_ai.conversation.id`; sent twice, the score stands once."""
    run = serve_one_customer(phoenix)
    whole = scored(run, tone=Score(value=0.5))
    whole = replace(whole, evaluations=(replace(whole.evaluations[0], conversation_id=CONVERSATION),))
    deliver(phoenix, whole)
    deliver(phoenix, whole)
    address, end = f"{phoenix}/v1/projects/{PROJECT}/session_annotations", time.monotonic() + 60
    found: Annotations = []
    while not found and time.monotonic() < end:
        answer = httpx.get(address, params={"session_ids": CONVERSATION})
        found = answer.json()["data"] if answer.is_success else []
        time.sleep(0.2)
    (annotation,) = found
    assert (annotation["name"], annotation["result"]["score"]) == ("tone", 0.5)


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: tests/interop/setup.sh installs it as root")
def test_the_command_reads_back_what_it_wrote(phoenix: str) -> None:
    done = CliRunner().invoke(app, ["destinations", "test", f"phoenix={phoenix}"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout.partition("Read back: ")[2])
    assert (found["name"], found["result"]["score"]) == ("otel_evals_test", 1.0)


def test_scores_stand_on_the_trace_s_page(phoenix: str, tmp_path: Path) -> None:
    run = serve_one_customer(phoenix)
    deliver(phoenix, scored(run))
    for of in ("span", "trace"):
        read_back(phoenix, run, lambda found: len(found) == 2, of)
    with browser_page() as page:
        trace = open_annotations(page, phoenix, run.trace_id, "invoke_agent support")
        explanation = trace.get_by_text("$12.50 is in no tool result").first
        explanation.wait_for(timeout=10_000)
        words = trace.inner_text()
        page.screenshot(path=picture(tmp_path, "phoenix-trace.png"))
        page.goto(page.url.split("/traces/")[0] + "/traces", wait_until="domcontentloaded")
        page.get_by_text("Average trace annotation scores").wait_for(timeout=30_000)
        page.get_by_text("keyword_coverage").first.wait_for(timeout=10_000)
        page.wait_for_timeout(1000)
        page.screenshot(path=picture(tmp_path, "phoenix-traces.png"))
    for expected in ("hallucination", "unsupported", "0.25", "keyword_coverage", "1.00"):
        assert expected in words
