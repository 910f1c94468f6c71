"""Plans questions of customers, some with faults, asks the agent, and records the ground truth."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic_ai.models.function import FunctionModel

from otel_evals_monitor._internal.demo.agent import FIELDS, Fault, Order, ScriptedModel, new_order, support

_FAULTY, _FAILING = 0.35, 0.1
_OPENINGS = ("", "Hi! ", "Hello. ", "Good morning. ")
_QUESTIONS = {
    "track_shipment": ("Where is my parcel {}?", "When does {} arrive?", "Which carrier delivers {}?"),
    "check_return": ("Can I still return {}?", "How long can I send {} back?", "I want to return {}."),
    "cancel_order": ("Please cancel {}.", "Call off my order {}, please.", "I no longer want {}: cancel it."),
}
Ask = Callable[[], Awaitable[str]]
"""Asks the agent one question, and returns its answer."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question, the tool it needs, and the fault to plant."""

    seed: str
    text: str
    tool: str
    order_id: str
    fault: Fault | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    trace_id: str
    question: str
    answer: str
    """The agent's answer."""
    sent: str
    """What the customer received: the answer, or the fallback of the guard."""
    tool: str
    """The tool that the question needs."""
    fault: Fault | None
    slip: str | None
    """Description of the fault."""


def plan(runs: int, seed: int) -> tuple[list[Question], dict[str, Order]]:
    """Plan questions, each about an order of its own; the same seed gives the same plan."""
    rng = random.Random(seed)
    questions, orders = [], {}
    for number, digits in enumerate(rng.sample(range(10_000, 99_999), runs)):
        order_id, fault = f"SO-{digits}", rng.choice(list(Fault)) if rng.random() < _FAULTY else None
        tools = [tool for tool in FIELDS if fault is not Fault.WRONG_NUMBER or tool != "track_shipment"]
        if fault is Fault.WRONG_DATE:
            tools.remove("cancel_order")
        tool = rng.choice(tools)
        fails = fault is Fault.GLOSSED_ERROR or (fault is None and rng.random() < _FAILING)
        orders[order_id] = new_order(rng, order_id, tool if fails else "")
        text = rng.choice(_OPENINGS) + rng.choice(_QUESTIONS[tool]).format(order_id)
        questions.append(Question(f"{seed}/{number}", text, tool, order_id, fault))
    return questions, orders


async def converse(
    questions: Sequence[Question],
    orders: dict[str, Order],
    record: Callable[[Truth], None],
    at_once: int = 24,
    think: float = 0.02,
    guarded: Callable[[Ask], Ask] = lambda ask: ask,
) -> None:
    """Ask the agent, `at_once` questions at a time, and pass the truth of each run to `record`.

    The model takes about `think` seconds for an answer; `guarded` decorates the function that asks it.
    """
    free = asyncio.Semaphore(at_once)

    async def one(question: Question) -> None:
        model = ScriptedModel(question.seed, question.tool, question.order_id, question.fault, think)
        scripted = FunctionModel(model.respond, model_name="scripted-support")
        said = ""

        async def ask() -> str:
            nonlocal said
            said = (await support.run(question.text, deps=orders, model=scripted)).output
            return said

        async with free:
            sent = await guarded(ask)()
        # A fault counts only if the model really made the mistake.
        fault = question.fault if model.slip else None
        ids = {"trace_id": model.trace_id, "question": question.text, "tool": question.tool}
        record(Truth(**ids, answer=said, sent=sent, fault=fault, slip=model.slip))

    async with asyncio.TaskGroup() as group:
        for question in questions:
            group.create_task(one(question))
