"""Messages that came one by one, as log records or span events."""

from __future__ import annotations

from typing import Any

from otel_evals.model import SpanEvent
from tests.support.trace_builder import run_of, span

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}


def log(name: str, body: Any) -> SpanEvent:
    return SpanEvent(name=name, body=body)


def test_the_events_name_says_who_spoke() -> None:
    """Vertex AI calls results the user's, and tells each call of a choice twice, once without its id."""
    cities = ("Rome", "Oslo")
    parts = [{"function_call": {"name": "weather", "args": {"city": city}}} for city in cities]
    calls = [
        {
            "id": f"weather_{i}",
            "type": "function",
            "function": {"name": "weather", "arguments": {"city": city}},
        }
        for i, city in enumerate(cities)
    ]
    asking = (
        log("gen_ai.user.message", {"role": "user", "content": [{"text": "Rome or Oslo?"}]}),
        log("gen_ai.choice", {"message": {"role": "model", "content": parts}, "tool_calls": calls}),
    )
    answering = (
        log("gen_ai.user.message", {"role": "user", "content": [{"text": "Rome or Oslo?"}]}),
        log("gen_ai.assistant.message", {"role": "model", "content": parts}),
        log("gen_ai.tool.message", {"role": "user", "id": "weather_0", "content": {"degrees": 30}}),
        log("gen_ai.tool.message", {"role": "user", "id": "weather_1", "content": {"degrees": 3}}),
        log("gen_ai.choice", {"message": {"role": "model", "content": [{"text": "Rome."}]}}),
    )
    run = run_of(
        span(1, {"gen_ai.operation.name": "invoke_agent"}),
        span(2, CHAT, logs=asking),
        span(3, CHAT, logs=answering),
    )
    assert (run.input, run.output) == ("Rome or Oslo?", "Rome.")
    assert [(c.name, c.id, c.arguments, c.result) for c in run.tool_calls] == [
        ("weather", "weather_0", {"city": "Rome"}, {"degrees": 30}),
        ("weather", "weather_1", {"city": "Oslo"}, {"degrees": 3}),
    ]
