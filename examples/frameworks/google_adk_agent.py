"""An agent of the Google ADK, scored live."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner

import otel_evals
from otel_evals.scorers import grounded_in_tools, tool_call_accuracy

otel_evals.configure(
    rules=[grounded_in_tools(), tool_call_accuracy(expected_tool="lookup_order")],
    destinations=["console"],
)

ORDERS = {
    "A-1001": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-25"},
    "A-1002": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-27"},
}


def lookup_order(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return ORDERS[order_id]


agent = LlmAgent(name="support", model=LiteLlm("openai/gpt-5-mini"), tools=[lookup_order])
runner = InMemoryRunner(agent, app_name="shop")
for order in ORDERS:
    asyncio.run(runner.run_debug(f"When does order {order} arrive?", session_id=order, quiet=True))
