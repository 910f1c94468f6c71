"""How spans of hand-written agents are made, for the type checker alone: never run, checked strictly."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import assert_type

from otel_evals_instrumentation import (
    AgentSpan,
    InferenceSpan,
    RetrievalSpan,
    ToolSpan,
    WorkflowSpan,
    agent,
    inference,
    retrieval,
    tool,
    workflow,
)


@tool
def find_order(order_id: str, *, quick: bool = False) -> dict[str, float]:
    return {order_id: 12.5}


@agent("support", version="2", input_from="question")
async def answer(user: str, question: str) -> str:
    AgentSpan.current().set_conversation(user)
    return question


@inference("gpt-5-mini", provider="openai", capture_content=True)
def stream(prompt: str) -> Iterator[str]:
    yield prompt


@workflow
async def stream_later(prompt: str) -> AsyncIterator[str]:
    yield prompt


class Shop:
    @retrieval("catalogue")
    def search(self, query: str) -> list[str]:
        return [query]

    @classmethod
    @tool
    def count(cls, kind: str) -> int:
        return len(kind)


async def use() -> None:
    assert_type(find_order("A-7", quick=True), dict[str, float])
    assert_type(await answer("u", question="q"), str)
    assert_type(stream("p"), Iterator[str])
    async for piece in stream_later("p"):
        assert_type(piece, str)
    assert_type(Shop().search("q"), list[str])
    assert_type(Shop.count("k"), int)


with agent("support") as run, workflow("w") as steps, tool("t", id="call_1") as call:
    assert_type(run, AgentSpan)
    assert_type(steps, WorkflowSpan)
    assert_type(call, ToolSpan)
with inference("m") as asked, retrieval() as searched:
    assert_type(asked, InferenceSpan)
    assert_type(searched, RetrievalSpan)
assert_type(InferenceSpan.current(), InferenceSpan)
