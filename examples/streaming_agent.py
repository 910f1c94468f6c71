"""An agent that streams its answer, scored when the stream has ended: python examples/streaming_agent.py

A decorated generator's span ends with the stream, and the time to its first piece is recorded. Ten customers
are served at once; each has a run of its own, with the conversation that the agent names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import otel_evals
from otel_evals import Run, scorer
from otel_evals_instrumentation import AgentSpan, agent, inference, retrieval

POLICIES = {"returns": "Returns are free for 30 days.", "shipping": "Shipping takes two days."}


@retrieval("policies", capture_content=True)
async def search(query: str) -> list[dict[str, object]]:
    await asyncio.sleep(0.01)
    found = (topic for topic in POLICIES if topic in query.lower())
    return [{"id": topic, "content": POLICIES[topic], "score": 1.0} for topic in found]


@inference("shop-1", provider="example", capture_content=True)
async def generate(messages: list[dict[str, str]]) -> AsyncIterator[str]:
    for word in messages[-1]["content"].split(" "):
        await asyncio.sleep(0.002)
        yield word + " "


@agent("clerk", input_from="question", capture_content=True)
async def answer(customer: str, question: str) -> AsyncIterator[str]:
    AgentSpan.current().set_conversation(customer)
    documents = await search(question)
    known = " ".join(str(document["content"]) for document in documents)
    async for piece in generate(
        [{"role": "user", "content": question}, {"role": "system", "content": known}]
    ):
        yield piece


@scorer
def quotes_a_policy(run: Run) -> bool:
    """Return True if the answer contains the retrieved text."""
    return any((document.content or "") in (run.output or "") for document in run.documents)


async def serve(customer: str, question: str) -> str:
    return "".join([piece async for piece in answer(customer, question)])


async def main() -> None:
    otel_evals.configure(rules=[quotes_a_policy], destinations=["console"])
    topics = ("returns", "shipping")
    await asyncio.gather(
        *(serve(f"customer-{n}", f"How is it with {topics[n % 2]}, please?") for n in range(10))
    )
    await asyncio.to_thread(otel_evals.force_flush)
    print("scored:", {name: rule.scored for name, rule in otel_evals.stats().rules.items()})


if __name__ == "__main__":
    asyncio.run(main())
