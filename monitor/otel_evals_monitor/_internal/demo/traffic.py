"""Plans conversations, some with faults, runs them with the agent, and records the ground truth."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic_ai.messages import ModelMessage
from pydantic_ai.models.function import FunctionModel

from otel_evals_monitor._internal.demo.agent import support
from otel_evals_monitor._internal.demo.phrases import ANSWERS, FOLLOW_UPS, OPENINGS, QUESTIONS
from otel_evals_monitor._internal.demo.script import BY_ORDER, Fault, ScriptedModel
from otel_evals_monitor._internal.demo.shop import CUSTOMERS, PRODUCTS, STORES, Shop
from otel_evals_monitor._internal.demo.words import kinds_in

_FAULTY, _FAILING, _TWO_TURNS = 0.35, 0.1, 0.2
_ELSEWHERE = ("Vienna", "Bergen", "Porto", "Krakow", "Austin")
_FIT = {
    "track_shipment": "SELECT order_id FROM shipments WHERE carrier_online",
    "get_order": "SELECT order_id FROM orders WHERE status != 'processing'",
    "check_return": "SELECT order_id, name AS item FROM orders JOIN order_lines USING (order_id)"
    " JOIN products USING (sku) WHERE status = 'delivered' GROUP BY order_id",
    "refund_status": "SELECT order_id FROM refunds",
    "cancel_order": "SELECT order_id FROM orders WHERE status = 'processing'",
}
_UNFIT = {
    "track_shipment": "SELECT order_id FROM shipments WHERE NOT carrier_online",
    "get_order": "SELECT 'SO-' || (100000 + rowid) AS order_id FROM orders",
    "refund_status": "SELECT order_id FROM shipments WHERE order_id NOT IN (SELECT order_id FROM refunds)",
    "cancel_order": "SELECT order_id FROM orders WHERE status = 'delivered'",
}
_CAN_BE_GLOSSED = ("track_shipment", "refund_status", "cancel_order")
Ask = Callable[[], Awaitable[str]]
"""Asks the agent one question, and returns its answer."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One question, the tool it needs, and the fault to plant."""

    question: str
    tool: str
    fault: Fault | None = None


@dataclass(frozen=True, slots=True)
class PlannedConversation:
    """One customer's turns, and their random seed."""

    seed: str
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    trace_id: str
    question: str
    answer: str
    """What the agent said."""
    sent: str
    """What the customer received: the answer, or the fallback of the guard."""
    tool: str
    """The tool that the question needs."""
    fault: Fault | None
    slip: str | None
    """Description of the fault."""


def plan(shop: Shop, runs: int, seed: int) -> list[PlannedConversation]:
    """Plan conversations with one or two turns, `runs` turns in total; the same seed gives the same plan."""
    planner = _Planner(shop, random.Random(seed))
    conversations: list[PlannedConversation] = []
    while runs > 0:
        turns = planner.turns(most=min(runs, 2))
        conversations.append(PlannedConversation(f"{seed}/{len(conversations)}", turns))
        runs -= len(turns)
    return conversations


async def converse(
    conversations: Sequence[PlannedConversation],
    shop: Shop,
    record: Callable[[Truth], None],
    at_once: int = 24,
    think: float = 0.02,
    guarded: Callable[[Ask], Ask] = lambda ask: ask,
) -> None:
    """Run conversations with the agent, `at_once` at a time, and pass the truth of each run to `record`.

    The model takes about `think` seconds for an answer; `guarded` decorates the function that asks it.
    """
    free = asyncio.Semaphore(at_once)

    async def one(conversation: PlannedConversation) -> None:
        async with free:
            history: list[ModelMessage] = []
            for number, turn in enumerate(conversation.turns):
                model = ScriptedModel(f"{conversation.seed}/{number}", turn.fault, think)
                scripted = FunctionModel(model.respond, model_name="scripted-support")
                said = ""

                async def ask(turn: Turn = turn, scripted: FunctionModel = scripted) -> str:
                    nonlocal history, said
                    result = await support.run(
                        turn.question, deps=shop, model=scripted, message_history=history
                    )
                    history, said = result.all_messages(), result.output
                    return said

                sent = await guarded(ask)()
                # A fault counts only if the model really made the mistake.
                fault = turn.fault if model.slip else None
                ids = {"trace_id": model.trace_id, "question": turn.question, "tool": turn.tool}
                record(Truth(**ids, answer=said, sent=sent, fault=fault, slip=model.slip))

    async with asyncio.TaskGroup() as group:
        for conversation in conversations:
            group.create_task(one(conversation))


class _Planner:
    def __init__(self, shop: Shop, rng: random.Random) -> None:
        self._shop, self._rng = shop, rng
        self._cancelled: set[str] = set()

    def turns(self, most: int) -> tuple[Turn, ...]:
        fault = self._rng.choice(list(Fault)) if self._rng.random() < _FAULTY else None
        tool = self._rng.choice(_tools_for(fault))
        fails = fault is Fault.GLOSSED_ERROR or (fault is None and self._rng.random() < _FAILING)
        question = self._rng.choice(QUESTIONS[tool]).format(**self._subject(tool, fails))
        first = Turn(self._rng.choice(OPENINGS) + question, tool, fault)
        follow_ups = [other for other in FOLLOW_UPS if other != tool]
        if most < 2 or fails or fault or tool not in FOLLOW_UPS or self._rng.random() > 2 * _TWO_TURNS:
            return (first,)
        then = self._rng.choice(follow_ups)
        return first, Turn(self._rng.choice(FOLLOW_UPS[then]), then)

    def _subject(self, tool: str, fails: bool) -> dict[str, str]:
        """Return the subject of a question that the tool can answer, or fails on."""
        rng = self._rng
        match tool:
            case "search_products":
                one, other = rng.sample(PRODUCTS, 2)
                return {"name": one[1], "other": other[1]}
            case "find_store":
                return {"city": rng.choice(_ELSEWHERE if fails else [store[0] for store in STORES])}
            case "loyalty_balance":
                name = rng.choice(CUSTOMERS).lower().replace(" ", "." if not fails else "_")
                return {"email": f"{name}@example.com"}
        rows = self._shop.all((_UNFIT if fails and tool in _UNFIT else _FIT)[tool])
        row = rng.choice([row for row in rows if row["order_id"] not in self._cancelled])
        if tool == "cancel_order":
            self._cancelled.add(row["order_id"])
        return row


def _tools_for(fault: Fault | None) -> Sequence[str]:
    match fault:
        case Fault.WRONG_TOOL:
            return BY_ORDER
        case Fault.GLOSSED_ERROR:
            return _CAN_BE_GLOSSED
        case None | Fault.OFF_TOPIC:
            return tuple(QUESTIONS)
    return [tool for tool in QUESTIONS if any(fault in kinds_in(answer) for answer in ANSWERS[tool])]
