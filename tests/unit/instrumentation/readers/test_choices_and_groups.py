"""Choices, groups, labels and exceptions: nothing is told that was not said, whatever the texts are."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.read.runs import find_runs
from tests.support.facts import case, span
from tests.support.trace_builder import KNOWN_CONVENTIONS

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=40).map(
    lambda text: f"said {text}."
)
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}
REASONS = st.sampled_from(["stop", "length", "content_filter"])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TEXTS, REASONS), min_size=1, max_size=4), st.sampled_from(["list", "events"]))
def test_the_answer_is_the_first_choice(choices: list[tuple[str, str]], told_in: str) -> None:
    if told_in == "list":
        listed = [
            {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": reason}
            for text, reason in choices
        ]
        model = span("chat", {**CHAT, "gen_ai.output.messages": listed})
    else:
        bodies = [
            {"index": n, "finish_reason": reason, "message": {"content": text}}
            for n, (text, reason) in enumerate(choices)
        ]
        model = span("chat", CHAT, logs=[("gen_ai.choice", {}, body) for body in bodies])
    (run,) = find_runs(case("choices", model).spans, KNOWN_CONVENTIONS)
    assert run.output == choices[0][0]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS), min_size=2, max_size=5, unique_by=lambda turn: turn[0]))
def test_turns_under_an_own_span_keep_their_answers(turns: list[tuple[str, str]]) -> None:
    """Each question with its own answer, or all as one: never one's question with another's answer."""
    generated = [
        span(
            "ai.generateText",
            {
                "ai.operationId": "ai.generateText",
                "ai.prompt": json.dumps({"prompt": question}),
                "ai.response.text": answer,
            },
            scope="ai",
        )
        for question, answer in turns
    ]
    runs = find_runs(
        case("turns", span("flow", {"openinference.span.kind": "CHAIN"}), *generated).spans, KNOWN_CONVENTIONS
    )
    if len(runs) > 1:
        assert [(run.input, run.output) for run in runs] == turns
    else:
        asked = [question for question, _ in turns]
        assert any(answer in later for n, (_, answer) in enumerate(turns) for later in asked[n + 1 :])


@settings(max_examples=40, deadline=None)
@given(TEXTS, st.text(st.characters(categories=("L", "N")), max_size=12))
def test_what_a_tool_gave_is_never_the_users_words(text: str, call_id: str) -> None:
    given_next = {"new_context": f"[TOOL RESULT: {call_id}]\n{text}", "response.model_output": "Done."}
    asked = span("claude_code.llm_request", given_next, scope="com.anthropic.claude_code.tracing")
    (run,) = find_runs(case("label", asked).spans, KNOWN_CONVENTIONS)
    assert run.input is None
    assert run.output == "Done."


@settings(max_examples=30, deadline=None)
@given(TEXTS, st.booleans(), st.sampled_from(["UNSET", "OK", "ERROR"]))
def test_an_exception_fails_a_tool_only_without_a_result(text: str, returned: bool, status: str) -> None:
    attributes = {"gen_ai.tool.name": "lookup", **({"gen_ai.tool.call.result": '"up"'} if returned else {})}
    tool = span("tool", attributes, status=status, events=[("exception", {"exception.message": text})])
    (run,) = find_runs(
        case("tool", span("a", {"gen_ai.operation.name": "invoke_agent"}), tool).spans, KNOWN_CONVENTIONS
    )
    (call,) = run.tool_calls
    assert (call.status == "error") == (status == "ERROR" or (status == "UNSET" and not returned))
