"""A Strands agent, scored live."""

from strands import Agent, tool
from strands.models.openai import OpenAIModel

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


@tool
def lookup_order(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return ORDERS[order_id]


for order in ORDERS:
    agent = Agent(
        OpenAIModel(model_id="gpt-5-mini"), name="support", tools=[lookup_order], callback_handler=None
    )
    agent(f"When does order {order} arrive?")
