"""The demo's traffic: varied, repeatable, and wrong exactly where the truth says so."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals.model import Message, OperationKind, Part, Run
from otel_evals_monitor._internal.demo.main import handbook
from otel_evals_monitor._internal.demo.script import BY_ORDER, Fault
from otel_evals_monitor._internal.demo.shop import Shop
from otel_evals_monitor._internal.demo.traffic import PlannedConversation, Truth, converse, plan
from otel_evals_monitor._internal.demo.words import Phrasing, kinds_in

Spans = InMemorySpanExporter


@pytest.fixture(scope="module")
def shop() -> Shop:
    return Shop(seed=3, orders=600)


@pytest.fixture(scope="module")
def conversations(shop: Shop) -> list[PlannedConversation]:
    return plan(shop, runs=400, seed=5)


@pytest.fixture(scope="module")
def held(shop: Shop) -> Iterator[tuple[list[Truth], Spans]]:
    """A hundred turns, really held, with the agent's spans."""
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    spans = Spans()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    truths: list[Truth] = []
    try:
        asyncio.run(converse(plan(shop, 100, seed=8), shop, truths.append, at_once=50, think=0))
    finally:
        Agent.instrument_all(False)
    yield truths, spans
    provider.shutdown()


def test_the_same_seed_plans_the_same_conversations(
    shop: Shop, conversations: list[PlannedConversation]
) -> None:
    assert plan(shop, runs=400, seed=5) == conversations
    assert plan(shop, runs=400, seed=6) != conversations


def test_tools_in_several_threads_share_the_shop(shop: Shop) -> None:
    """The same statement, asked by many at once, answers each of them."""
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda _: shop.one("SELECT * FROM stores WHERE city = ?", "Oslo"), range(800)))
    assert rows == [shop.one("SELECT * FROM stores WHERE city = ?", "Oslo")] * 800


def test_every_fault_is_planned_and_most_turns_are_sound(conversations: list[PlannedConversation]) -> None:
    faults = Counter(turn.fault for c in conversations for turn in c.turns)
    assert sum(faults.values()) == 400
    assert set(faults) == {None, *Fault}
    assert faults[None] > 200


def test_questions_are_as_varied_as_customers_are(conversations: list[PlannedConversation]) -> None:
    questions = [turn.question for c in conversations for turn in c.turns]
    assert len(set(questions)) > 300
    assert any(len(c.turns) == 2 for c in conversations)


def test_the_handbook_names_the_tool_of_every_question(conversations: list[PlannedConversation]) -> None:
    for turn in (turn for c in conversations for turn in c.turns):
        asked = Message(role="user", parts=(Part(kind="text", text=turn.question),))
        run = Run(
            trace_id="0" * 32, root_span_id="0" * 16, root_kind=OperationKind.AGENT, input_messages=(asked,)
        )
        assert handbook(run) == turn.tool, turn.question


def test_every_run_is_a_trace_of_its_own_with_the_agents_spans(held: tuple[list[Truth], Spans]) -> None:
    truths, spans = held
    roots = [s for s in spans.get_finished_spans() if s.parent is None]
    assert {f"{s.get_span_context().trace_id:032x}" for s in roots} == {t.trace_id for t in truths}
    assert len(truths) == len(roots) == 100
    assert {s.name for s in roots} == {"invoke_agent support"}


def test_answers_come_from_the_tools_and_differ(held: tuple[list[Truth], Spans]) -> None:
    truths, _ = held
    assert len({t.answer for t in truths}) > 80
    assert not any("{" in t.answer for t in truths)


def test_a_fault_counts_only_with_the_slip_that_was_made(held: tuple[list[Truth], Spans]) -> None:
    truths, _ = held
    assert all((t.fault is None) == (t.slip is None) for t in truths)
    assert all(t.tool in BY_ORDER for t in truths if t.fault is Fault.WRONG_TOOL)


def test_an_honest_agent_calls_the_tool_that_the_question_calls_for(held: tuple[list[Truth], Spans]) -> None:
    truths, spans = held
    called: dict[str, set[str]] = {t.trace_id: set() for t in truths}
    for span in spans.get_finished_spans():
        if (span.attributes or {}).get("gen_ai.operation.name") == "execute_tool":
            trace_id = f"{span.get_span_context().trace_id:032x}"
            called[trace_id].add(str((span.attributes or {})["gen_ai.tool.name"]))
    for truth in truths:
        refused = truth.tool == "cancel_order" and called[truth.trace_id] == {"get_order"}
        right = truth.tool in called[truth.trace_id] or refused
        assert right is (truth.fault is not Fault.WRONG_TOOL), truth


@pytest.mark.parametrize("seed", range(40))
def test_a_slip_states_another_value_and_leaves_the_other_facts_alone(seed: int) -> None:
    facts = {"total": 120.5, "currency": "EUR", "due": "2026-03-04", "order_id": "SO-1234"}
    sentence = "{order_id:identifier} costs {total:money} and comes on {due:date}."
    right = Phrasing(random.Random(seed)).fill(sentence, facts)
    phrasing = Phrasing(random.Random(seed), "wrong_date", known=set(facts.values()))
    wrong = phrasing.fill(sentence, facts)
    said, true = str(phrasing.slipped).split(" instead of ")
    assert right.replace(true, said) == wrong != right


def test_a_sentence_tells_which_faults_it_has_room_for() -> None:
    assert kinds_in("{a:money} on {b:date} by {c:thing}, {d:text}") == {
        "wrong_number",
        "wrong_date",
        "mixed_up",
    }
