"""A CrewAI crew, scored live."""

from crewai import Agent, Crew, Task
from crewai.tools import tool
from openinference.instrumentation.crewai import CrewAIInstrumentor

import otel_evals
from otel_evals.scorers import grounded_in_tools, tool_call_accuracy

otel_evals.configure(
    rules=[grounded_in_tools(), tool_call_accuracy(expected_tool="lookup_order")],
    destinations=["console"],
)
CrewAIInstrumentor().instrument()

ORDERS = {
    "A-1001": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-25"},
    "A-1002": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-27"},
}


@tool("lookup_order")
def lookup_order(order_id: str) -> dict[str, str]:
    """Look up an order."""
    return ORDERS[order_id]


support = Agent(
    role="support",
    goal="Answer customers",
    backstory="You look up orders.",
    tools=[lookup_order],
    llm="openai/gpt-5-mini",
)
task = Task(description="{question}", expected_output="One sentence", agent=support)
crew = Crew(name="shop", agents=[support], tasks=[task])
for order in ORDERS:
    crew.kickoff({"question": f"When does order {order} arrive?"})
