"""An agent written by hand, scored live: python examples/handwritten_agent.py

The decorators write OpenTelemetry's GenAI spans, `configure` scores the runs that they make. The model is a
function here, so that the example needs no key; it gets one of three prices wrong.
"""

from __future__ import annotations

from typing import Any

import otel_evals
from otel_evals import Run, scorer
from otel_evals.scorers import grounded_in_tools, tool_call_accuracy
from otel_evals_instrumentation import agent, inference, tool

PRICES = {"mug": "$7.50", "lamp": "$31.00", "chair": "$120.00"}


@tool(capture_content=True)
def look_up_price(article: str) -> dict[str, str]:
    """The price of an article."""
    return {"article": article, "price": PRICES[article]}


def ask_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Stands for a chat client; `capture_content=True` records the messages on the span."""
    with inference("shop-1", provider="example", capture_content=True) as call:
        call.set_input(messages)
        reply = scripted_model(messages)
        call.set_reply(reply)
        return dict(reply["choices"][0]["message"])


@agent("shop", capture_content=True)
def answer(question: str) -> str:
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    message = ask_model(messages)
    for wanted in message.get("tool_calls", []):
        result = look_up_price(wanted["function"]["arguments"]["article"])
        told = {"role": "tool", "tool_call_id": wanted["id"], "content": result["price"]}
        messages += [message, told]
    return str(ask_model(messages)["content"])


@scorer
def is_short(run: Run) -> bool:
    """Return True if the answer has fewer than twenty words."""
    return len((run.output or "").split()) < 20


def scripted_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Call the tool and repeat its price, except for a chair."""
    article = messages[0]["content"].rstrip("?").split()[-1]
    if messages[-1]["role"] == "user":
        function = {"name": "look_up_price", "arguments": {"article": article}}
        message: dict[str, Any] = {
            "role": "assistant",
            "tool_calls": [{"id": f"call-{article}", "function": function}],
        }
    else:
        price = "$99.00" if article == "chair" else messages[-1]["content"]
        message = {"role": "assistant", "content": f"The {article} costs {price}."}
    return {"choices": [{"message": message}], "usage": {"prompt_tokens": 40, "completion_tokens": 9}}


def main() -> None:
    otel_evals.configure(
        rules=[is_short, grounded_in_tools(), tool_call_accuracy(expected_tool="look_up_price")],
        destinations=["console"],
    )
    for article in PRICES:
        answer(f"What is the price of the {article}?")
    otel_evals.force_flush()
    rules = otel_evals.stats().rules
    print("scored:", {name: rule.scored for name, rule in rules.items()})


if __name__ == "__main__":
    main()
