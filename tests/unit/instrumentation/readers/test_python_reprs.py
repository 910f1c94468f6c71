"""LangChain messages that were written down with `str()`, and reprs of other objects."""

from __future__ import annotations

import json

import pytest

from tests.support.trace_builder import run_of, span

QUESTION, ANSWER, RESULT = "Is the library open?", "It is open until six.", "open 9-18"
ARGUMENTS = {"day": "monday"}
J = json.dumps

ASKED = f"content={QUESTION!r} additional_kwargs={{}} response_metadata={{}} id='5f'"
CALLED = (
    "content='' additional_kwargs={'refusal': None, 'note': 'it\\'s {open} (now)'} "
    "response_metadata={'model_name': 'm', 'logprobs': None} id='run--1' "
    "tool_calls=[{'name': 'opening_hours', 'args': {'day': 'monday'}, 'id': 'c1', 'type': 'tool_call'}]"
)
TOLD = f"content={RESULT!r} name='opening_hours' id='7a' tool_call_id='c1'"
SAID = f"content={ANSWER!r} additional_kwargs={{}} response_metadata={{'model_name': 'm'}} id='run--2'"


def test_messages_written_with_str_are_told_apart() -> None:
    state = {"messages": [ASKED, CALLED, TOLD, SAID]}
    attributes = {
        "openinference.span.kind": "CHAIN",
        "input.value": J({"messages": [ASKED]}),
        "output.value": J(state),
    }
    tool = {
        "openinference.span.kind": "TOOL",
        "tool.name": "opening_hours",
        "input.value": "{'day': 'monday'}",
        "output.value": TOLD,
    }
    run = run_of(span(1, attributes), span(2, tool))
    assert (run.input, run.output) == (QUESTION, ANSWER)
    (call,) = run.tool_calls
    assert (call.name, call.arguments, call.result, call.id) == ("opening_hours", ARGUMENTS, RESULT, "c1")
    assert [m.role for m in run.output_messages] == ["assistant", "tool", "assistant"]


def test_messages_written_with_str_may_leave_out_what_is_empty() -> None:
    state = {
        "messages": [f"content={QUESTION!r} id='5f'", f"content={ANSWER!r} response_metadata={{'m': 1}}"]
    }
    attributes = {"openinference.span.kind": "AGENT", "output.value": J(state)}
    run = run_of(span(1, {**attributes, "input.value": J({"messages": state["messages"][:1]})}))
    assert (run.input, run.output, len(run.output_messages)) == (QUESTION, ANSWER, 1)


@pytest.mark.parametrize("text", ["content='a' is how you pass it", "content='a' size=3", "content='cut of"])
def test_what_is_no_message_written_with_str_is_kept_as_it_is(text: str) -> None:
    assert run_of(span(1, {"openinference.span.kind": "AGENT", "input.value": text})).input == text


def test_a_failed_result_written_with_str_has_failed() -> None:
    tool = {
        "openinference.span.kind": "TOOL",
        "tool.name": "opening_hours",
        "output.value": "content='no such day' tool_call_id='c1' status='error'",
    }
    run = run_of(span(1, {"openinference.span.kind": "AGENT"}), span(2, tool))
    assert (run.tool_calls[0].status, run.tool_calls[0].error) == ("error", "no such day")


def test_message_classes_in_a_repr_say_who_spoke() -> None:
    state = f"[HumanMessage(content={QUESTION!r}, id='1'), AIMessageChunk(content={ANSWER!r}, id='2')]"
    attributes = {"openinference.span.kind": "AGENT", "input.value": state, "output.value": state}
    run = run_of(span(1, attributes))
    assert (run.input, run.output) == (QUESTION, ANSWER)


def test_a_text_that_only_begins_like_a_message_is_a_text() -> None:
    text = "content='a' is how you pass it, and additional_kwargs={} too"
    attributes = {"llm.request.type": "chat", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": text}
    assert run_of(span(1, attributes)).input == text
