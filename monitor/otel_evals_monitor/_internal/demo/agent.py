"""The support agent and its customers: pydantic-ai with three tools, and pydantic-ai's own instrumentation.

This module does not depend on scoring. A scripted model replaces a hosted one, so the demo needs no key and
no network. Its faults are planned, which gives a ground truth for the scores.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum
from typing import Any

from opentelemetry import trace
from pydantic_ai import Agent, ModelRetry, RunContext
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

TODAY = date(2026, 11, 23)
CARRIERS = ("DHL", "UPS", "FedEx", "GLS", "PostNord")
PRODUCTS = (
    "Ridge 45 backpack",
    "Fjell rain jacket",
    "Tarn two-person tent",
    "Ember stove",
    "Scree trail shoes",
)
Order = dict[str, Any]
"""All facts about an order; `fails` is the tool that cannot answer for it."""
Orders = dict[str, Order]
"""By id."""
_Context = RunContext[Orders]


class Fault(StrEnum):
    WRONG_NUMBER = "wrong_number"
    WRONG_DATE = "wrong_date"
    WRONG_TOOL = "wrong_tool"
    GLOSSED_ERROR = "glossed_error"
    """The answer pretends that a failed tool succeeded."""
    OFF_TOPIC = "off_topic"


support = Agent(
    name="support",
    deps_type=Orders,
    instructions="You are Mia, support agent of Larch & Stone, an outdoor shop. "
    f"Answer from your tools, in two or three sentences. Today is {TODAY:%A, %d %B %Y}.",
)


@support.tool
def track_shipment(ctx: _Context, order_id: str) -> dict[str, Any]:
    """Track a parcel: its carrier and tracking number, when it was shipped and when it arrives."""
    return _found(ctx, "track_shipment", order_id, "The carrier's tracking service timed out.")


@support.tool
def check_return(ctx: _Context, order_id: str) -> dict[str, Any]:
    """Check whether an order can be returned: until what day, how many days are left, the price paid."""
    return _found(ctx, "check_return", order_id, f"Order {order_id} was not delivered yet.")


@support.tool
def cancel_order(ctx: _Context, order_id: str) -> dict[str, Any]:
    """Cancel an order before it ships, and say what is refunded."""
    problem = f"Order {order_id} cannot be cancelled: it has left the warehouse."
    return _found(ctx, "cancel_order", order_id, problem)


FIELDS: Mapping[str, tuple[str, ...]] = {
    "track_shipment": ("carrier", "tracking_number", "shipped_on", "arrives_on"),
    "check_return": ("item", "price", "currency", "return_by", "days_left"),
    "cancel_order": ("status", "refunded", "currency"),
}
"""Facts that each tool returns."""
ANSWERS: Mapping[str, tuple[str, ...]] = {
    "track_shipment": (
        "{carrier} has your parcel {tracking_number}; it should arrive on {arrives_on}.",
        "Your order {order_id} left us on {shipped_on} with {carrier} and arrives on {arrives_on}.",
        "Shipped on {shipped_on}. The tracking number is {tracking_number}, and {carrier} delivers it.",
    ),
    "check_return": (
        "You can send the {item} back until {return_by}, that is {days_left} more days. You paid {price}.",
        "Yes: {days_left} days are left to return order {order_id}, and you get {price} back.",
        "The {item} of {price} can be returned until {return_by}.",
    ),
    "cancel_order": (
        "Order {order_id} is cancelled, and {refunded} goes back to your card.",
        "Done: I cancelled it. You get {refunded} back.",
    ),
}
_FALSIFIED: Mapping[Fault | None, tuple[str, ...]] = {
    Fault.WRONG_NUMBER: ("price", "refunded", "days_left"),
    Fault.WRONG_DATE: ("shipped_on", "arrives_on", "return_by"),
}
"""Facts of which one is changed, by fault."""
_UNFIT: Mapping[Fault | None, str] = {Fault.WRONG_NUMBER: "track_shipment", Fault.WRONG_DATE: "cancel_order"}
"""The tool whose answers have no such fact."""
_APOLOGIES = (
    "Sorry, that did not work: {problem} Please try again later.",
    "I was unable to look this up. {problem}",
    "Unfortunately I could not do this: {problem}",
)
_DODGES = ("I will gladly look into this for you.", "Thank you for your message, we are on it.")
_OFF_TOPIC = (
    "Our winter sale has begun: have a look at the new jackets.",
    "Did you know that members collect points with every purchase?",
)


def new_order(rng: random.Random, order_id: str, fails: str = "") -> Order:
    """Return an order with made-up facts, the same for the same random numbers."""
    shipped = TODAY - timedelta(days=rng.randint(3, 12))
    arrives = shipped + timedelta(days=rng.randint(2, 6))
    price = rng.randint(2_000, 40_000) / 100
    return {
        "order_id": order_id,
        "carrier": rng.choice(CARRIERS),
        "tracking_number": f"{rng.choice('JRZ')}{rng.choice('DGX')}{rng.randint(10**9, 10**10 - 1)}",
        "shipped_on": shipped,
        "arrives_on": arrives,
        "item": rng.choice(PRODUCTS),
        "price": price,
        "refunded": price,
        "currency": rng.choice(("USD", "EUR", "GBP")),
        "return_by": arrives + timedelta(days=30),
        "days_left": (arrives + timedelta(days=30) - TODAY).days,
        "status": "cancelled",
        "fails": fails,
    }


def _found(ctx: _Context, tool: str, order_id: str, problem: str) -> dict[str, Any]:
    order = ctx.deps[order_id]
    if order["fails"] == tool:
        raise ModelRetry(problem)
    return {name: order[name] for name in ("order_id", *FIELDS[tool])}


class ScriptedModel:
    """Calls the tool that a question needs, and answers from its result, with a fault if one is planned."""

    def __init__(self, question: Question, think: float) -> None:
        self._rng, self._think = random.Random(question.seed), think
        self._tool, self._order_id, self._fault = question.tool, question.order_id, question.fault
        self.trace_id = ""
        """Trace of the run; empty until the model is called."""
        self.slip: str | None = None
        """Description of the fault; None without one."""

    async def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Answer one call of the model, with a tool call or text."""
        await asyncio.sleep(self._think * self._rng.uniform(0.5, 2))
        self.trace_id = f"{trace.get_current_span().get_span_context().trace_id:032x}"
        last = messages[-1].parts[-1]
        if isinstance(last, RetryPromptPart):
            return ModelResponse([TextPart(self._after_failure(str(last.content)))])
        if isinstance(last, ToolReturnPart):
            if not isinstance(last.content, dict):  # the tool was cancelled by Ctrl-C
                raise asyncio.CancelledError
            return ModelResponse([TextPart(self._answer(last.tool_name, last.content))])
        tool = self._tool
        if self._fault is Fault.WRONG_TOOL:
            tool = self._rng.choice([other for other in ("", *FIELDS) if other not in (tool, "cancel_order")])
            self.slip = f"{tool or 'no tool'} instead of {self._tool}"
        if not tool:
            return ModelResponse([TextPart(self._rng.choice(_DODGES))])
        return ModelResponse([ToolCallPart(tool, {"order_id": self._order_id})])

    def _after_failure(self, problem: str) -> str:
        if self._fault is not Fault.GLOSSED_ERROR:
            return self._rng.choice(_APOLOGIES).format(problem=problem)
        self.slip = f"passed over: {problem}"
        return self._answer(self._tool, new_order(self._rng, self._order_id))

    def _answer(self, tool: str, facts: dict[str, Any]) -> str:
        if self._fault is Fault.OFF_TOPIC:
            self.slip = "spoke of something else"
            return self._rng.choice(_OFF_TOPIC)
        wanted = _FALSIFIED.get(self._fault, ())
        sentences = [each for each in ANSWERS[tool] if any(f"{{{name}}}" in each for name in wanted)]
        sentence = self._rng.choice(sentences or ANSWERS[tool])
        told = dict(facts)
        for name in [each for each in wanted if f"{{{each}}}" in sentence][:1]:
            told[name] = _falsified(facts[name], self._rng)
            self.slip = f"{told[name]} instead of {facts[name]}"
        return sentence.format(**{name: _phrased(value, facts, self._rng) for name, value in told.items()})


def _falsified(value: Any, rng: random.Random) -> Any:
    if isinstance(value, date):
        return value + timedelta(days=rng.choice((-9, -4, 40, 51)))
    if isinstance(value, int):
        return value + rng.choice((41, 52, 63))
    return round(value * rng.choice((0.5, 1.1, 2)), 2)


def _phrased(value: Any, facts: Mapping[str, Any], rng: random.Random) -> str:
    """Return a fact as people write it: one of several forms of dates and prices."""
    if isinstance(value, float):
        sign = {"USD": "$", "EUR": "€", "GBP": "£"}[facts["currency"]]
        return rng.choice(
            (f"{sign}{value:,.2f}", f"{value:,.2f} {facts['currency']}", f"{facts['currency']} {value:.2f}")
        )
    if isinstance(value, date):
        day = f"{value.day} {value:%B}"
        return rng.choice((str(value), f"{day} {value:%Y}", f"{value:%B} {value.day}", f"{value:%A}, {day}"))
    return str(value)


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


def plan(runs: int, seed: int) -> tuple[list[Question], Orders]:
    """Plan questions about different orders; the same seed gives the same plan."""
    rng = random.Random(seed)
    questions, orders = [], {}
    for number, digits in enumerate(rng.sample(range(10_000, 99_999), runs)):
        order_id, fault = f"SO-{digits}", rng.choice(list(Fault)) if rng.random() < _FAULTY else None
        tool = rng.choice([tool for tool in FIELDS if tool != _UNFIT.get(fault)])
        fails = fault is Fault.GLOSSED_ERROR or (fault is None and rng.random() < _FAILING)
        orders[order_id] = new_order(rng, order_id, tool if fails else "")
        text = rng.choice(_OPENINGS) + rng.choice(_QUESTIONS[tool]).format(order_id)
        questions.append(Question(f"{seed}/{number}", text, tool, order_id, fault))
    return questions, orders


async def converse(
    questions: Sequence[Question],
    orders: Orders,
    record: Callable[[Truth], None],
    at_once: int = 24,
    think: float = 0.02,
    guarded: Callable[[Ask], Ask] | None = None,
) -> None:
    """Ask the agent, `at_once` questions at a time, and pass the truth of each run to `record`.

    The model takes about `think` seconds for an answer; `guarded` decorates the function that asks it.
    """
    free = asyncio.Semaphore(at_once)

    async def one(question: Question) -> None:
        model = ScriptedModel(question, think)
        scripted = FunctionModel(model.respond, model_name="scripted-support")
        said = ""

        async def ask() -> str:
            nonlocal said
            said = (await support.run(question.text, deps=orders, model=scripted)).output
            return said

        async with free:
            sent = await (guarded(ask) if guarded else ask)()
        # A fault counts only if the model really made the mistake.
        fault = question.fault if model.slip else None
        ids = {"trace_id": model.trace_id, "question": question.text, "tool": question.tool}
        record(Truth(**ids, answer=said, sent=sent, fault=fault, slip=model.slip))

    async with asyncio.TaskGroup() as group:
        for question in questions:
            group.create_task(one(question))
