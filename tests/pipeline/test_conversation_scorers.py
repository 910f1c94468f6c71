"""The package's own scorers on whole conversations, of a real framework and of spans made by hand."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from otel_evals import NotScored, Rule, Run, Score, sampling
from otel_evals._internal.read.conversation import as_conversation
from otel_evals.context import tool_results
from otel_evals.judges import ScriptedJudge
from otel_evals.model import Usage
from otel_evals.scorers import (
    answered,
    grounded_in_tools,
    hallucination,
    multi_turn_judge,
    repeated_calls,
    tool_call_accuracy,
    within_budget,
)
from tests.support.judge_scorers import reply_of
from tests.support.runs import a_run, tool
from tests.support.stub_openai import CallTool, StubOpenAI
from tests.support.traffic import Live

ETA = {"A-1001": "2026-11-25", "A-1002": "2026-12-01"}
SATISFIED = {"verdict": "met", "reason": "Every question is answered."}

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


@pytest.fixture(autouse=True)
def frameworks_leave_connections_open() -> Iterator[None]:
    """Their HTTP clients are closed by the garbage collector; have that happen here, unpunished."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def order_of(messages: list[dict[str, Any]]) -> str:
    asked = [m for m in messages if m["role"] == "user"][-1]["content"]
    return next(order for order in ETA if order in asked)


def looks_up_first(body: dict[str, Any]) -> Any:
    """Calls the tool for the order that the last question is about, then answers from its result."""
    order = order_of(body["messages"])
    if body["messages"][-1]["role"] == "tool":
        return f"Order {order} arrives on {ETA[order]}."
    return CallTool("lookup_order", {"order_id": order})


def agent(live: Live, model: StubOpenAI) -> Any:
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
        return {"eta": ETA[order_id]}

    return agent


@pytest.mark.slow
def test_a_framework_that_hands_its_history_on_is_judged_whole_and_without_doubles() -> None:
    """pydantic-ai sends every message again with each turn, and names the conversation by itself."""
    judge = ScriptedJudge({"analyze": SATISFIED})
    scorers = (
        multi_turn_judge(judge, criterion="Every question is answered."),
        grounded_in_tools(),
        tool_call_accuracy(expected_tool="lookup_order"),
        answered(),
    )
    with (
        StubOpenAI(looks_up_first) as model,
        Live(*(Rule(each, scope="conversation") for each in scorers)) as live,
    ):
        support = agent(live, model)
        first = support.run_sync("Where is order A-1001?")
        support.run_sync("And A-1002?", message_history=first.all_messages())
        live.pipeline.shutdown()
        ((scored,), stats) = live.scored.runs, live.pipeline.stats()
    whole = scored.run
    assert [turn.input for turn in whole.turns] == ["Where is order A-1001?", "And A-1002?"]
    assert [(m.role, m.text) for m in whole.history] == [
        ("user", "Where is order A-1001?"),
        ("assistant", "Order A-1001 arrives on 2026-11-25."),
    ]
    assert [call.arguments for call in whole.tool_calls] == [{"order_id": order} for order in ETA]
    assert {e.scorer_id: e.outcome.value for e in scored.evaluations} == {  # type: ignore[union-attr]
        "multi_turn_judge": 1.0,
        "grounded_in_tools": 1.0,
        "tool_call_accuracy": 1.0,
        "answered": 1.0,
    }
    (request,) = judge.requests
    for words in ("Where is order A-1001?", "arrives on 2026-11-25", "And A-1002?", "arrives on 2026-12-01"):
        assert request.prompt.count(words) == 1
    assert stats.check() == []
    assert {e.conversation_id for e in scored.evaluations} == {whole.conversation_id}


def conversation(*turns: Run) -> Run:
    return as_conversation(
        Run(**{**turn.__dict__, "start_time": n, "trace_id": f"{n + 1:032x}", "conversation_id": "c"})
        for n, turn in enumerate(turns)
    )


def judged(scorer: Any, run: Run) -> Score | NotScored:
    outcome = asyncio.run(scorer.score(run))
    assert isinstance(outcome, Score | NotScored)
    return outcome


def test_what_a_tool_told_in_an_earlier_turn_supports_the_last_answer() -> None:
    told = a_run("It ships with ACME.", "Who ships it?", tools=[tool("lookup", {"eta": "2026-11-25"})])
    last = a_run("It arrives on 2026-11-25.", "When?")
    alone, whole = judged(grounded_in_tools(), last), judged(grounded_in_tools(), conversation(told, last))
    assert isinstance(alone, NotScored)
    assert isinstance(whole, Score)
    assert whole.value == 1.0


def test_judges_get_the_tool_results_of_all_turns() -> None:
    judge = ScriptedJudge({"analyze": reply_of("hallucination", "two")})
    first = a_run("One.", tools=[tool("a", "first result")])
    last = a_run("Two.", tools=[tool("b", "second result")])
    scorer = hallucination(model=judge, get_context=tool_results())
    assert isinstance(judged(scorer, conversation(first, last)), Score)
    prompt = judge.requests[0].prompt
    assert "first result" in prompt
    assert "second result" in prompt


def test_calls_are_counted_over_all_turns() -> None:
    same = [tool("search", arguments={"q": "x"})]
    once, twice = (
        judged(repeated_calls(), conversation(*turns))
        for turns in ((a_run(tools=same),), (a_run(tools=same), a_run(tools=same)))
    )
    assert isinstance(once, Score)
    assert isinstance(twice, Score)
    assert once.value != twice.value


def test_a_conversation_has_the_budget_of_all_its_turns() -> None:
    turn = a_run(usage=Usage(input_tokens=60, output_tokens=10))
    limit = within_budget(max_tokens=100)
    one, two = judged(limit, conversation(turn)), judged(limit, conversation(turn, turn))
    assert [one.value, two.value] == [1.0, pytest.approx(100 / 140, abs=0.01)]  # type: ignore[union-attr]


def test_errors_pick_a_conversation_in_which_something_failed() -> None:
    broken = conversation(a_run(None, error="boom", error_type="E"), a_run())
    assert sampling.errors().chance(broken).probability == 1.0
    assert isinstance(judged(answered(), broken), Score)
