"""An agent of the Claude Agent SDK, scored by a gateway."""

import asyncio
import json
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

ORDERS = {
    "A-1001": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-25"},
    "A-1002": {"status": "shipped", "carrier": "ACME", "arrives": "2026-11-27"},
}


@tool("lookup_order", "Look up an order.", {"order_id": str})
async def lookup_order(arguments: dict[str, Any]) -> dict[str, Any]:
    order = ORDERS[arguments["order_id"]]
    return {"content": [{"type": "text", "text": json.dumps(order)}]}


TELEMETRY = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "ENABLE_TOOL_SEARCH": "false",
    "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
    "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA": "1",
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_LOGS_EXPORTER": "otlp",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_LOG_USER_PROMPTS": "1",
    "OTEL_LOG_TOOL_DETAILS": "1",
    "OTEL_LOG_TOOL_CONTENT": "1",
}


async def main() -> None:
    options = ClaudeAgentOptions(
        env=TELEMETRY,
        mcp_servers={"shop": create_sdk_mcp_server("shop", tools=[lookup_order])},
        allowed_tools=["mcp__shop__lookup_order"],
    )
    for order in ORDERS:
        async for _ in query(prompt=f"When does order {order} arrive?", options=options):
            pass


asyncio.run(main())
