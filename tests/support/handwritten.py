"""A hand-written agent and what became of its spans, for tests of the decorators."""

from __future__ import annotations

import itertools
import json
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals_instrumentation import agent, inference, retrieval, tool

__all__ = ["Recorder", "a_reply", "support_agent"]


class Recorder:
    """Providers of its own that keep what they are given; `options` goes to every decorator."""

    def __init__(self, limits: SpanLimits | None = None) -> None:
        self._spans = InMemorySpanExporter()
        self.provider = TracerProvider(span_limits=limits)
        self.provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.options: dict[str, Any] = {"tracer_provider": self.provider}
        self.capturing = {**self.options, "capture_content": True}

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """The spans that ended, in that order."""
        return self._spans.get_finished_spans()

    def span(self, name: str) -> ReadableSpan:
        """The one span of that name that ended."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def value(self, name: str, key: str) -> Any:
        """What JSON text that attribute of that span holds; None where it has none."""
        text = (self.span(name).attributes or {}).get(key)
        return json.loads(text) if isinstance(text, str) else text


_numbers = itertools.count(1)


def a_reply(text: str | None, *calls: tuple[str, str, dict[str, Any]]) -> dict[str, Any]:
    """An OpenAI chat completion that says something or calls tools: (id, name, arguments)."""
    wanted = [
        {"id": id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for id, name, arguments in calls
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": wanted} if wanted else {})}
    reason = "tool_calls" if wanted else "stop"
    return {
        "id": f"chatcmpl-{next(_numbers)}",
        "object": "chat.completion",
        "model": "gpt-5-mini-2026-01-01",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70},
    }


def support_agent(**options: Any) -> Any:
    """An agent of one loop by hand: it asks a model, looks an order up, reads the policy, and answers."""

    @tool(**options)
    def find_order(order_id: str) -> dict[str, Any]:
        """Look an order up."""
        return {"id": order_id, "total": 12.5}

    @retrieval("policies", **options)
    def search(query: str) -> list[dict[str, Any]]:
        return [{"id": "p1", "content": "Returns are free for 30 days.", "score": 0.9}]

    @inference("gpt-5-mini", provider="openai", **options)
    def ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
        if messages[-1]["role"] == "tool":
            return a_reply("Order A-7 costs $12.50; returns are free.")
        return a_reply(None, ("call_1", "find_order", {"order_id": "A-7"}))

    @agent("support", version="2", conversation_id="c-42", **options)
    def answer(question: str) -> str:
        messages: list[dict[str, Any]] = [
            {"role": "system", "content": "You help customers."},
            {"role": "user", "content": question},
        ]
        called = ask(messages)["choices"][0]["message"]
        found = find_order(**json.loads(called["tool_calls"][0]["function"]["arguments"]))
        search(question)
        told = {"role": "tool", "tool_call_id": "call_1", "content": json.dumps(found)}
        return str(ask([*messages, called, told])["choices"][0]["message"]["content"])

    return answer
