"""A LangGraph agent, scored live."""

from langchain.agents import create_agent
from openinference.instrumentation.langchain import LangChainInstrumentor

import otel_evals
from otel_evals.scorers import grounded_in_tools, tool_call_accuracy

otel_evals.configure(
    rules=[grounded_in_tools(), tool_call_accuracy(expected_tool="lookup_order")],
    destinations=["console"],
)
LangChainInstrumentor().instrument()

ORDERS = {
    "A-1001": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-25"},
    "A-1002": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-27"},
}


def lookup_order(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return ORDERS[order_id]


agent = create_agent("openai:gpt-5-mini", tools=[lookup_order], name="support")
for order in ORDERS:
    agent.invoke({"messages": [("user", f"When does order {order} arrive?")]})
