"""The scripted model: reads the conversation, chooses a tool, and answers from the tool's result.

It replaces a hosted model, so the demo needs no key and no network. It uses only the messages; its faults are
planned, which gives a ground truth for the scores.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from typing import Any

from opentelemetry import trace
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo
from pydantic_ai.tools import ToolDefinition

from otel_evals_monitor._internal.demo.phrases import ANSWERS, APOLOGIES, CLOSINGS, DODGES, OFF_TOPIC
from otel_evals_monitor._internal.demo.shop import CARRIERS, METHODS, PRODUCTS, TODAY
from otel_evals_monitor._internal.demo.words import Phrasing, kinds_in

BY_ORDER = ("track_shipment", "get_order", "check_return", "refund_status")
"""Tools whose only argument is an order's id: one can be called instead of another."""

_IDLE_WORDS = re.compile(
    r"\b(an?|and|any|are|be|can|do|does|for|ha[sd]|have|how|i|in|is|it|me|my|of|on|please|the|to)\b"
)

_Said = ToolReturnPart | RetryPromptPart


class Fault(StrEnum):
    WRONG_NUMBER = "wrong_number"
    WRONG_DATE = "wrong_date"
    WRONG_IDENTIFIER = "wrong_identifier"
    WRONG_NAME = "wrong_name"
    """Another person or street."""
    MIXED_UP = "mixed_up"
    """Another product, carrier or town."""
    WRONG_TOOL = "wrong_tool"
    GLOSSED_ERROR = "glossed_error"
    """The answer pretends that a failed tool succeeded."""
    OFF_TOPIC = "off_topic"


class ScriptedModel:
    def __init__(self, seed: int | str, fault: Fault | None = None, think: float = 0.02) -> None:
        self._rng, self._fault, self._think = random.Random(seed), fault, think
        self.trace_id = ""
        """Trace of the turn; empty until the model is called."""
        self.slip: str | None = None
        """Description of the fault; None without one."""

    async def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        """Answer one call of the model, with tool calls or text."""
        await asyncio.sleep(self._think * self._rng.uniform(0.5, 2))
        self.trace_id = f"{trace.get_current_span().get_span_context().trace_id:032x}"
        *earlier, question = _questions(messages)
        said = _said_by_tools(messages)
        tool = _best_tool(question, info.function_tools)
        if not said:
            return self._look_up(tool, question, earlier)
        last = said[-1]
        if tool == "cancel_order" and last.tool_name == "get_order" and not _failed(last):
            return ModelResponse([ToolCallPart(tool, {"order_id": _rows(last.content)[0]["order_id"]})])
        return ModelResponse([TextPart(self._answer(said, question))])

    def _look_up(self, tool: str, question: str, earlier: Sequence[str]) -> ModelResponse:
        if self._fault is Fault.WRONG_TOOL:
            wrong = self._rng.choice([other for other in (*BY_ORDER, "no tool") if other != tool])
            self.slip = f"{wrong} instead of {tool}"
            if wrong == "no tool":
                return ModelResponse([TextPart(self._rng.choice(DODGES))])
            tool = wrong
        # The agent reads an order before it cancels it.
        name = "get_order" if tool == "cancel_order" else tool
        calls = [ToolCallPart(name, arguments) for arguments in _arguments(tool, question, earlier)]
        return ModelResponse(calls)

    def _answer(self, said: Sequence[_Said], question: str) -> str:
        facts = _facts(said)
        if _failed(said[-1]):
            if self._fault is not Fault.GLOSSED_ERROR:
                return self._rng.choice(APOLOGIES).format(problem=said[-1].content)
            self.slip = f"passed over: {said[-1].content}"
            facts |= _invented(_last_match(r"SO-\d+", [question]), self._rng)
        if self._fault is Fault.OFF_TOPIC:
            self.slip = "spoke of something else"
            return self._rng.choice(OFF_TOPIC)
        return self._phrase(facts, "compare" if "other" in facts else str(said[-1].tool_name), question)

    def _phrase(self, facts: Mapping[str, Any], topic: str, question: str) -> str:
        """Return an answer from one of the topic's sentences, preferably one that fits the question."""
        sentences = [s for s in ANSWERS[topic] if self._fault in kinds_in(s)] or ANSWERS[topic]
        asked = _stems(question)
        sentence = max(sentences, key=lambda s: len(asked & _stems(s)) + self._rng.uniform(0, 1.5))
        phrasing = Phrasing(self._rng, self._fault, known={*facts.values(), str(TODAY)})
        answer = phrasing.fill(sentence, facts) + self._rng.choice(CLOSINGS)
        self.slip = self.slip or phrasing.slipped
        return answer


# --- reading the conversation ---


def _questions(messages: Sequence[ModelMessage]) -> list[str]:
    return [str(p.content) for m in messages for p in m.parts if isinstance(p, UserPromptPart)]


def _said_by_tools(messages: Sequence[ModelMessage]) -> list[_Said]:
    """Return the tools' results of this turn."""
    said: list[_Said] = []
    for part in (part for message in messages for part in message.parts):
        if isinstance(part, UserPromptPart):
            said.clear()
        elif isinstance(part, _Said):
            said.append(part)
    return said


def _failed(part: _Said) -> bool:
    """Return True if a tool failed: its result is text instead of facts."""
    return isinstance(part.content, str)


def _best_tool(question: str, tools: Sequence[ToolDefinition]) -> str:
    """Return the tool whose description shares most words with the question; rare words count more."""
    words = {tool.name: _stems(tool.description or "") for tool in tools}
    tools_with = Counter(word for stems in words.values() for word in stems)
    asked = _stems(question)
    return max(words, key=lambda name: sum(1 / tools_with[word] for word in asked & words[name]))


def _stems(text: str) -> set[str]:
    words = re.findall(r"[a-z]+", _IDLE_WORDS.sub("", text.lower()))
    return {re.sub(r"(ing|ed|es|s|e)$", "", word) for word in words}


def _arguments(tool: str, question: str, earlier: Sequence[str]) -> Iterator[dict[str, str]]:
    match tool:
        case "search_products":
            yield from ({"name": name} for _, name, *_ in PRODUCTS if name in question)
        case "find_store":
            yield {"city": _last_match(r"(?:in|the|hours) ([A-Z]\w+)", [question])}
        case "loyalty_balance":
            yield {"email": _last_match(r"[\w.]+@[\w.]+\w", [*earlier, question])}
        case _:
            yield {"order_id": _last_match(r"SO-\d+", [*earlier, question])}


def _last_match(pattern: str, texts: Sequence[str]) -> str:
    found = [match for text in texts for match in re.findall(pattern, text)]
    return found[-1] if found else ""


# --- composing the answer ---


def _facts(said: Sequence[_Said]) -> dict[str, Any]:
    """Return the tools' results as one flat dictionary, with derived values."""
    rows = [row for part in said if not _failed(part) for row in _rows(part.content)]
    facts: dict[str, Any] = {name: value for row in reversed(rows) for name, value in row.items()}
    if "items" in facts:
        items = facts.pop("items")
        facts |= items[0] | {"item": items[0]["name"], "pieces": sum(item["quantity"] for item in items)}
    if "restocking_fee_percent" in facts:
        facts["after_fee"] = round(facts["price"] * (1 - facts["restocking_fee_percent"] / 100), 2)
    if len(rows) == 2 and "sku" in rows[1]:
        facts |= _compared(*rows)
    return facts


def _rows(content: Any) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else [content]


def _compared(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "other": other["name"],
        "other_price": other["price"],
        "other_stock": other["in_stock"],
        "other_warranty": other["warranty_months"],
        "cheaper": min(one, other, key=lambda product: product["price"])["name"],
        "difference": round(abs(one["price"] - other["price"]), 2),
    }


def _invented(order_id: str, rng: random.Random) -> dict[str, Any]:
    """Return invented facts, for answers after a failed lookup."""
    days = sorted(str(TODAY + timedelta(days=rng.randint(-12, 12))) for _ in range(2))
    return {
        "order_id": order_id,
        "carrier": rng.choice(CARRIERS),
        "tracking_number": f"ZX{rng.randint(10**9, 10**10 - 1)}",
        "shipped_on": days[0],
        "estimated_delivery": days[1],
        "last_seen_in": "Antwerp",
        "refund_id": f"RF-{rng.randint(10**6, 10**7 - 1)}",
        "amount": rng.randint(2_000, 40_000) / 100,
        "refunded": rng.randint(2_000, 40_000) / 100,
        "requested_on": days[0],
        "placed_on": days[0],
        "expected_by": days[1],
        "method": rng.choice(METHODS),
    }
