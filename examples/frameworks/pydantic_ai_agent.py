"""A Pydantic AI agent, scored live."""

from pydantic_ai import Agent

import otel_evals
from otel_evals.scorers import grounded_in_tools, tool_call_accuracy

otel_evals.configure(
    rules=[grounded_in_tools(), tool_call_accuracy(expected_tool="lookup_order")],
    destinations=["console"],
)
Agent.instrument_all()

ORDERS = {
    "A-1001": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-25"},
    "A-1002": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-27"},
}


def lookup_order(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return ORDERS[order_id]


agent = Agent("openai:gpt-5-mini", name="support", tools=[lookup_order])
for order in ORDERS:
    agent.run_sync(f"When does order {order} arrive?")
