"""Real agent frameworks with their own instrumentation, against a model server on loopback, scored live."""

from __future__ import annotations

import asyncio
import gc
import json
import warnings
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from otel_evals import Rule, Run
from otel_evals.judges import OpenAICompatibleJudge
from otel_evals.scorers import classifier, grounded_in_tools, tool_call_accuracy
from tests.support.stub_openai import CallTool, StubOpenAI
from tests.support.traffic import Live
from tests.support.waits import SECONDS

QUESTION = "Where is order A-1001?"
ANSWER = "Order A-1001 was shipped with ACME and arrives on 2026-11-25."
RESULT = {"status": "shipped", "carrier": "ACME", "eta": "2026-11-25"}


def model_that_looks_up_first(body: dict[str, Any]) -> Any:
    """Calls the tool, then answers from its result."""
    if any(m["role"] == "tool" for m in body["messages"]):
        return ANSWER
    return CallTool("lookup_order", {"order_id": "A-1001"})


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
    with StubOpenAI(model_that_looks_up_first) as stub:
        yield stub


def rules() -> tuple[Rule, ...]:
    return (Rule(grounded_in_tools()), Rule(tool_call_accuracy(expected_tool="lookup_order")))


def pydantic_agent(live: Live, model: StubOpenAI) -> Any:
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent: Any = Agent(
        OpenAIChatModel("stub", provider=OpenAIProvider(base_url=model.url, api_key="none")),
        name="support",
    )
    agent.instrument = InstrumentationSettings(tracer_provider=live.provider)

    @agent.tool_plain
    def lookup_order(order_id: str) -> dict[str, str]:
        """Look up an order."""
        return RESULT

    return agent


def check(run: Run) -> None:
    assert run.input == QUESTION
    assert run.output == ANSWER
    (call,) = run.tool_calls
    assert (call.name, call.arguments, call.status) == ("lookup_order", {"order_id": "A-1001"}, "ok")
    assert call.result == RESULT
    assert run.usage.input_tokens == 240


def check_scores(live: Live, count: int) -> None:
    assert live.flush()
    runs = live.scored.wait_for(count, SECONDS)
    for scored in runs:
        check(scored.run)
        values = {e.scorer_id: e.outcome.value for e in scored.evaluations}  # type: ignore[union-attr]  # scores
        assert values == {"grounded_in_tools": 1.0, "tool_call_accuracy": 1.0}
    assert live.pipeline.stats().seen == count
    assert live.pipeline.stats().check() == []


def test_pydantic_ai_asyncio(model: StubOpenAI) -> None:
    """Many runs at once on one event loop stay apart."""
    with Live(*rules()) as live:
        agent = pydantic_agent(live, model)

        async def main() -> None:
            await asyncio.gather(*(agent.run(QUESTION) for _ in range(8)))

        asyncio.run(main())
        check_scores(live, 8)


@pytest.mark.filterwarnings("ignore:Instrumentation format versions")
@pytest.mark.parametrize("version", [2, 5])
def test_pydantic_ai_with_an_image(version: int) -> None:
    """The judge sees the image that the agent was asked about."""
    from pydantic_ai import BinaryContent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    picture = b"\x89PNG\r\n\x1a\n" + bytes(50)
    with StubOpenAI({"label": "right", "reason": "r"}) as judge, StubOpenAI("Its door is off.") as model:
        asked = OpenAICompatibleJudge("stub", api_base=judge.url, images=True)
        with Live(Rule(classifier(asked, question="Right?", classes={"right": 1, "wrong": 0}))) as live:
            agent = pydantic_agent(live, model)
            agent.instrument = InstrumentationSettings(tracer_provider=live.provider, version=version)
            agent.run_sync([QUESTION, BinaryContent(picture, media_type="image/png")])
            assert live.flush()
            (scored,) = live.scored.wait_for(1, SECONDS)
    assert scored.run.input == QUESTION
    (own,) = scored.run.input_messages[-1].media
    assert (own.mime_type, own.size) == ("image/png", len(picture))
    shown = [p["image_url"]["url"] for p in judge.requests[0]["messages"][-1]["content"] if "image_url" in p]
    assert shown == [f"data:image/png;base64,{b64encode(picture).decode()}"]


@pytest.fixture
def instrumented_openai_agents() -> Iterator[Any]:
    """The OpenAI Agents SDK with OpenInference's instrumentation on a provider of the test's."""
    from agents import set_trace_processors
    from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

    instrumentor = OpenAIAgentsInstrumentor()
    yield lambda provider: instrumentor.instrument(tracer_provider=provider)
    instrumentor.uninstrument()
    set_trace_processors([])


@pytest.mark.slow
def test_openai_agents_with_openinference(model: StubOpenAI, instrumented_openai_agents: Any) -> None:
    """Another framework, another convention, the same run."""
    from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
    from openai import AsyncOpenAI

    @function_tool
    def lookup_order(order_id: str) -> str:
        """Look up an order."""
        return json.dumps(RESULT)

    async def main() -> None:
        async with AsyncOpenAI(base_url=model.url, api_key="none") as client:
            chat = OpenAIChatCompletionsModel("stub", client)
            agent = Agent(name="support", model=chat, tools=[lookup_order])
            for _ in range(3):
                assert (await Runner.run(agent, QUESTION)).final_output == ANSWER

    with Live(*rules()) as live:
        instrumented_openai_agents(live.provider)
        asyncio.run(main())
        check_scores(live, 3)
