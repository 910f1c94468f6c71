"""A model server on loopback that answers by script, to run the examples of this folder without a key:

    python scripted_model.py python langgraph_agent.py

It runs the command with the environment variables that point OpenAI's and Anthropic's clients here. The model
calls `lookup_order` for the order that the user names, then answers. For order A-1002 it gives a wrong date.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWERS = {
    "A-1001": "Order A-1001 was shipped with ACME and arrives on 2026-11-25.",
    "A-1002": "Order A-1002 was shipped with ACME and arrives on 2026-11-30.",
}
Json = dict[str, Any]
Event = tuple[str, Json]


@dataclass(frozen=True)
class Turn:
    """The model's next step: a call of `tool` with the order, or the answer `text`."""

    order: str
    tool: str | None
    number: int
    model: str

    @property
    def text(self) -> str:
        """The answer."""
        return ANSWERS.get(self.order, "Hello.")

    @property
    def arguments(self) -> str:
        """The tool's arguments."""
        return json.dumps({"order_id": self.order})

    @property
    def call(self) -> str:
        """The tool call's id."""
        return f"call_{self.number}"


def decide(body: Json, number: int) -> Turn:
    """Call the tool unless its result is in the request already."""
    said = json.dumps(body.get("messages", body.get("input", "")))
    orders = re.findall(r"A-\d{4}", said)
    answered = re.search(r'"role": "tool"|function_call_output|tool_result', said)
    names = [tool.get("name") or tool["function"]["name"] for tool in body.get("tools", ())]
    tools = [name for name in names if name.endswith("lookup_order")]
    tool = tools[0] if tools and orders and not answered else None
    return Turn(orders[-1] if orders else "", tool, number, body.get("model", "scripted"))


def chat(turn: Turn) -> Json:
    """OpenAI's chat completions."""
    message: Json = {"role": "assistant", "content": None if turn.tool else turn.text}
    if turn.tool:
        function = {"name": turn.tool, "arguments": turn.arguments}
        message["tool_calls"] = [{"index": 0, "id": turn.call, "type": "function", "function": function}]
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if turn.tool else "stop"}
    usage = {"prompt_tokens": 120, "completion_tokens": 20, "total_tokens": 140}
    head = {"id": f"chat_{turn.number}", "created": 1_700_000_000, "model": turn.model}
    return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}


def chat_events(turn: Turn) -> Iterator[Event]:
    whole = chat(turn)
    (choice,) = whole["choices"]
    chunk = {**whole, "object": "chat.completion.chunk", "usage": None}
    yield "", {**chunk, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}
    yield "", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield "", {**chunk, "choices": [], "usage": whole["usage"]}


def responses(turn: Turn) -> Json:
    """OpenAI's responses."""
    item: Json
    if turn.tool:
        item = {"type": "function_call", "id": f"fc_{turn.number}", "status": "completed"}
        item |= {"call_id": turn.call, "name": turn.tool, "arguments": turn.arguments}
    else:
        part = {"type": "output_text", "text": turn.text, "annotations": []}
        item = {"type": "message", "id": f"msg_{turn.number}", "status": "completed"}
        item |= {"role": "assistant", "content": [part]}
    head = {"id": f"resp_{turn.number}", "object": "response", "created_at": 1_700_000_000}
    return head | {"status": "completed", "model": turn.model, "output": [item], **REST}


REST: Json = {
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "error": None,
    "metadata": {},
    "usage": {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 20,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 140,
    },
}


def responses_events(turn: Turn) -> Iterator[Event]:
    whole = responses(turn)
    (item,) = whole["output"]
    place: Json = {"output_index": 0, "item_id": item["id"]}
    yield "response.created", {"response": {**whole, "status": "in_progress", "output": [], "usage": None}}
    if turn.tool:
        yield "response.output_item.added", {"output_index": 0, "item": {**item, "arguments": ""}}
        yield "response.function_call_arguments.delta", {**place, "delta": item["arguments"]}
        yield "response.function_call_arguments.done", {**place, "arguments": item["arguments"]}
    else:
        (part,) = item["content"]
        place["content_index"] = 0
        yield "response.output_item.added", {"output_index": 0, "item": {**item, "content": []}}
        yield "response.content_part.added", {**place, "part": {**part, "text": ""}}
        yield "response.output_text.delta", {**place, "delta": part["text"], "logprobs": []}
        yield "response.output_text.done", {**place, "text": part["text"], "logprobs": []}
        yield "response.content_part.done", {**place, "part": part}
    yield "response.output_item.done", {"output_index": 0, "item": item}
    yield "response.completed", {"response": whole}


def messages(turn: Turn) -> Json:
    """Anthropic's messages."""
    block: Json = {"type": "text", "text": turn.text}
    if turn.tool:
        block = {"type": "tool_use", "id": f"toolu_{turn.number}", "name": turn.tool}
        block["input"] = json.loads(turn.arguments)
    head = {"id": f"msg_{turn.number}", "type": "message", "role": "assistant", "model": turn.model}
    end = {"stop_reason": "tool_use" if turn.tool else "end_turn", "stop_sequence": None}
    return head | {"content": [block], **end, "usage": {"input_tokens": 120, "output_tokens": 20}}


def messages_events(turn: Turn) -> Iterator[Event]:
    whole = messages(turn)
    (block,) = whole["content"]
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    empty = {**block, "input": {}} if turn.tool else {**block, "text": ""}
    delta = {"type": "input_json_delta", "partial_json": turn.arguments}
    if not turn.tool:
        delta = {"type": "text_delta", "text": turn.text}
    yield "message_start", {"message": {**whole, "content": [], "stop_reason": None}}
    yield "content_block_start", {"index": 0, "content_block": empty}
    yield "content_block_delta", {"index": 0, "delta": delta}
    yield "content_block_stop", {"index": 0}
    yield "message_delta", {"delta": end, "usage": {"output_tokens": 20}}
    yield "message_stop", {}


APIS: dict[str, tuple[Callable[[Turn], Json], Callable[[Turn], Iterator[Event]]]] = {
    "/chat/completions": (chat, chat_events),
    "/responses": (responses, responses_events),
    "/messages": (messages, messages_events),
}


class Handler(BaseHTTPRequestHandler):
    """Answers a request in the form of its API, as one document or as a stream of events."""

    protocol_version = "HTTP/1.1"
    number = 0

    def do_POST(self) -> None:
        """Answer one request of a model's client."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
        Handler.number += 1
        path = self.path.partition("?")[0]
        api = next((apis for end, apis in APIS.items() if path.endswith(end)), None)
        if api is None:
            return self.answer(404, "application/json", b"{}")
        turn = decide(body, Handler.number)
        if not body.get("stream"):
            return self.answer(200, "application/json", json.dumps(api[0](turn)).encode())
        text = ""
        for index, (kind, data) in enumerate(api[1](turn)):
            named = {"type": kind, "sequence_number": index} if kind else {}
            text += (f"event: {kind}\n" if kind else "") + f"data: {json.dumps(named | data)}\n\n"
        done = "data: [DONE]\n\n" if path.endswith("completions") else ""
        return self.answer(200, "text/event-stream", (text + done).encode())

    def answer(self, status: int, kind: str, content: bytes) -> None:
        """Send a whole response."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None:
        """Print nothing."""


OFFLINE = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
"""Keeps the frameworks from calling other servers."""


def main() -> int:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        scripted = dict.fromkeys(("OPENAI_BASE_URL", "OPENAI_API_BASE"), f"{address}/v1")
        scripted |= {"OPENAI_API_KEY": "none", "ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "none"}
        done = subprocess.run(sys.argv[1:], env={**os.environ, **scripted, **OFFLINE}, check=False)
        server.shutdown()
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
