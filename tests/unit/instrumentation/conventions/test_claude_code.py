"""Claude Code's detailed tracing, and plug-ins that write transcripts in its form."""

from __future__ import annotations

import json

import pytest

from otel_evals.model import OperationKind
from tests.support.trace_builder import TraceBuilder, the_call

J = json.dumps


@pytest.mark.parametrize("types", ["", "claude_code.", None])
def test_kinds_are_told_by_type_or_by_name(types: str | None) -> None:
    """Some versions write `span.type` bare, some with a prefix, and some have only the span's name."""

    def of(kind: str) -> dict[str, str]:
        return {} if types is None else {"span.type": types + kind}

    spans = (
        TraceBuilder("com.anthropic.claude_code")
        .add("claude_code.interaction", {**of("interaction"), "user_prompt": "List it.", "session.id": "s1"})
        .add(
            "claude_code.llm_request",
            {
                **of("llm_request"),
                "model": "claude-x\x1b[1m",
                "new_context": "[USER PROMPT]\nList it.",
                "response.model_output": "Here: a.",
                "input_tokens": 3,
                "output_tokens": 5,
                "cache_read_tokens": 10,
            },
        )
        .add(
            "claude_code.tool",
            {
                **of("tool"),
                "tool_name": "Bash",
                "tool_input": '[TOOL INPUT: Bash]\n{"command": "ls"}',
                "new_context": "[TOOL RESULT: Bash]\na",
            },
        )
    )
    run = spans.run
    assert (run.root_kind, run.input, run.output) == (OperationKind.AGENT, "List it.", "Here: a.")
    assert the_call(run) == ("Bash", {"command": "ls"}, "a", "ok")
    assert (run.models, run.usage.input_tokens) == (("claude-x",), 13)


def test_a_transcript_that_a_plug_in_wrote_is_read() -> None:
    tool = {
        "span.type": "tool_execution",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "Bash",
    }
    spans = (
        TraceBuilder("@latitude-data/claude-code-telemetry")
        .add(
            "interaction",
            {
                "span.type": "interaction",
                "user_prompt": "List it.",
                "gen_ai.input.messages": J(
                    [{"role": "user", "parts": [{"type": "text", "content": "List it."}]}]
                ),
            },
        )
        .add(
            "llm_request",
            {
                "span.type": "llm_request",
                "gen_ai.operation.name": "chat",
                "gen_ai.request.model": "claude-x",
                "gen_ai.output.messages": J(
                    [{"role": "assistant", "parts": [{"type": "text", "content": "No."}]}]
                ),
            },
        )
        .add(
            "tool:Bash",
            {
                **tool,
                "gen_ai.tool.call.id": "c1",
                "gen_ai.tool.call.arguments": J({"command": "ls"}),
                "gen_ai.tool.call.result": J("not allowed"),
                "error.type": "tool_error",
                "success": "false",
            },
            status="ERROR",
        )
    )
    run = spans.run
    assert (run.input, run.output) == ("List it.", "No.")
    assert the_call(run) == ("Bash", {"command": "ls"}, "not allowed", "error")
    assert run.tool_calls[0].error == "not allowed"
