"""Codex: usage on the turn's span, prompts and tools in log records."""

from __future__ import annotations

import json

from otel_evals.model import OperationKind, SpanEvent
from tests.support.trace_builder import TraceBuilder

J = json.dumps


def log(name: str, **attributes: object) -> SpanEvent:
    return SpanEvent(name=name, attributes={"event.name": name, **attributes})


def test_a_turn_is_a_run_of_an_agent() -> None:
    usage = "codex.turn.token_usage."
    logs = (
        log("codex.user_prompt", prompt="Tidy up.", prompt_length=8),
        log(
            "codex.tool_result",
            tool_name="shell",
            call_id="c1",
            arguments='{"cmd": "ls"}',
            output="a b",
            success="true",
        ),
        log(
            "codex.tool_result",
            tool_name="shell",
            call_id="c2",
            arguments='{"cmd": "rm"}',
            output="denied",
            success="false",
        ),
    )
    turn = {
        "model": "m1",
        "turn.id": "t1",
        "thread.id": "s1",
        usage + "input_tokens": 90,
        usage + "cached_input_tokens": 40,
        usage + "output_tokens": 8,
        usage + "reasoning_output_tokens": 3,
    }
    spans = TraceBuilder("codex_cli_rs").add("session_task.turn", turn, logs=logs)
    spans.add("handle_responses", {"gen_ai.usage.input_tokens": 90, "gen_ai.usage.output_tokens": 8})
    run = spans.run
    assert (run.root_kind, run.input, run.conversation_id) == (OperationKind.AGENT, "Tidy up.", "s1")
    assert [(c.name, c.id, c.arguments, c.result, c.status) for c in run.tool_calls] == [
        ("shell", "c1", {"cmd": "ls"}, "a b", "unknown"),
        ("shell", "c2", {"cmd": "rm"}, "denied", "error"),
    ]
    assert run.usage.total_tokens == 98


def test_a_prompt_that_was_masked_is_not_the_question() -> None:
    logs = (log("codex.user_prompt", prompt="[REDACTED]"),)
    assert TraceBuilder("codex_exec").add("session_task.turn", {}, logs=logs).run.input is None
