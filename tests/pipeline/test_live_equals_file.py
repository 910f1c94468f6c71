"""The same spans give the same run, whether they ended in process or were read from an OTLP file."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToJson
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals import Rule, Run
from otel_evals._internal.otlp.files import read_traces
from otel_evals._internal.read.runs import find_runs
from otel_evals.conventions import load_conventions
from otel_evals.scorers import grounded_in_tools
from tests.support.replacing import replace
from tests.support.stub_openai import CallTool, StubOpenAI
from tests.support.traffic import Live
from tests.support.waits import SECONDS

QUESTION, ANSWER = "Where is order A-1001?", "It arrives on 2026-11-25."

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def frameworks_leave_connections_open() -> Iterator[None]:
    """Their HTTP clients are closed by the garbage collector; have that happen here, unpunished."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture
def model() -> Iterator[StubOpenAI]:
    def reply(body: dict[str, Any]) -> Any:
        told = any(m["role"] == "tool" for m in body["messages"])
        return ANSWER if told else CallTool("lookup_order", {"order_id": "A-1001"})

    with StubOpenAI(reply) as stub:
        yield stub


def run_pydantic_ai(live: Live, model: StubOpenAI) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    provider = OpenAIProvider(base_url=model.url, api_key="none")
    agent: Any = Agent(OpenAIChatModel("stub", provider=provider), name="support")
    agent.instrument = InstrumentationSettings(tracer_provider=live.provider)

    @agent.tool_plain
    def lookup_order(order_id: str) -> dict[str, str]:
        """Look up an order."""
        return {"eta": "2026-11-25"}

    agent.run_sync(QUESTION)


def run_openai_agents(live: Live, model: StubOpenAI) -> None:
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_trace_processors
    from openai import AsyncOpenAI
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    @function_tool
    def lookup_order(order_id: str) -> str:
        """Look up an order."""
        return "2026-11-25"

    async def main() -> None:
        async with AsyncOpenAI(base_url=model.url, api_key="none") as client:
            chat = OpenAIChatCompletionsModel("stub", client)
            await Runner.run(Agent(name="support", model=chat, tools=[lookup_order]), QUESTION)

    instrumentor = OpenAIAgentsInstrumentor()
    instrumentor.instrument(tracer_provider=live.provider)
    try:
        asyncio.run(main())
    finally:
        instrumentor.uninstrument()
        set_trace_processors([])


def write(path: Path, spans: Sequence[ReadableSpan], form: str) -> None:
    request = encode_spans(spans)
    if form == "protobuf":
        path.write_bytes(request.SerializeToString())
    else:
        path.write_text(MessageToJson(request, indent=None))


@pytest.mark.parametrize(
    "framework",
    [run_pydantic_ai, pytest.param(run_openai_agents, marks=pytest.mark.slow)],
    ids=["pydantic_ai", "openai_agents"],
)
@pytest.mark.parametrize("form", ["protobuf", "json"])
def test_a_run_from_a_file_equals_the_run_that_was_scored_live(
    framework: Any, form: str, model: StubOpenAI, tmp_path: Path
) -> None:
    exported = InMemorySpanExporter()
    with Live(Rule(grounded_in_tools())) as live:
        live.provider.add_span_processor(SimpleSpanProcessor(exported))
        framework(live, model)
        assert live.flush()
        ((scored,),) = [live.scored.wait_for(1, SECONDS)]
    spans = [s for s in exported.get_finished_spans() if s.instrumentation_scope.name != "otel_evals"]  # type: ignore[union-attr]
    write(tmp_path / "spans", spans, form)
    (trace,) = read_traces([str(tmp_path / "spans")])
    (from_file,) = find_runs(trace, load_conventions())
    assert from_file == without_random_flag(scored.run)
    assert (from_file.input, from_file.output) == (QUESTION, ANSWER)
    assert [c.name for c in from_file.tool_calls] == ["lookup_order"]


def without_random_flag(run: Run) -> Run:
    """The run as it can be told from a file: Python's exporter does not write the trace flags down."""
    operations = tuple(replace(o, span=replace(o.span, trace_flags=1)) for o in run.operations)
    return replace(run, trace_flags=1, operations=operations)
