"""Messages are read in whatever form a provider or framework gave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from otel_evals.model import Message
from otel_evals_instrumentation._internal.readers.events import event_messages
from otel_evals_instrumentation._internal.readers.messages import read_messages


def told(messages: tuple[Message, ...]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """Messages in short: roles, and parts as (kind, what matters)."""
    return [
        (
            m.role,
            [
                (p.kind, p.text)
                if p.kind in ("text", "reasoning")
                else (p.kind, p.name, p.tool_call_id, p.data)
                if p.kind in ("tool_call", "tool_result")
                else (p.kind,)
                for p in m.parts
            ],
        )
        for m in messages
    ]


ASKED = ("user", [("text", "Weather in Paris?")])
CALL = ("tool_call", "get_weather", "c1", {"city": "Paris"})
ANSWERED = ("tool", [("tool_result", None, "c1", "Sunny")])
SAID = ("assistant", [("text", "It is sunny.")])
FORMS: dict[str, Any] = yaml.safe_load((Path(__file__).parents[1] / "forms_of_messages.yaml").read_text())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
@pytest.mark.parametrize("write", [lambda value: value, json.dumps], ids=["structured", "json"])
def test_a_conversation_is_the_same_in_every_form(form: Any, write: Any) -> None:
    found = [m for m in told(read_messages(write(form))) if m[0] != "system"]
    assert found[0] == ASKED
    assert found[1] == ("assistant", [CALL])
    (result,) = found[2][1]
    assert (result[0], result[2], result[3]) == ("tool_result", "c1", "Sunny")
    assert found[3] == SAID
    assert len(found) == 4


def test_a_system_instruction_beside_the_messages_comes_first() -> None:
    assert told(read_messages(FORMS["gemini"]))[0] == ("system", [("text", "Be brief.")])
    assert told(read_messages({"system": "Be brief.", "prompt": "Hi"})) == [
        ("system", [("text", "Be brief.")]),
        ("user", [("text", "Hi")]),
    ]


@pytest.mark.parametrize(
    "value",
    [
        "Hi",
        {"messages": [{"role": "user", "content": "Hi"}]},
        {"task": "Hi", "stream": False},
        {"question": "Hi"},
        {"args": [], "kwargs": {"query": "Hi"}},
        {"args": ["Hi"], "kwargs": {}},
        {"inputs": {"messages": [["user", "Hi"]]}, "tags": [], "metadata": {}},
        {"new_message": {"role": "user", "parts": [{"text": "Hi"}]}, "session_id": "s"},
        [{"text": "Hi"}],
        ["Hi"],
    ],
)
def test_what_a_user_said_is_found_in_arguments_of_functions(value: Any) -> None:
    assert told(read_messages(value)) == [("user", [("text", "Hi")])]


@pytest.mark.parametrize(
    "value",
    [
        {"output": {"messages": [{"type": "ai", "content": "Yes"}]}},
        {"raw": "Yes", "pydantic": None},
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes"}}]},
        {
            "generations": [
                [{"text": "Yes", "message": {"type": "ai", "content": "Yes"}, "generation_info": None}]
            ]
        },
        {
            "output": [
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes"}]}
            ]
        },
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Yes"}]}}]},
        {"text": "Yes", "files": []},
        {"answer": "Yes", "confidence": 1},
    ],
)
def test_what_an_agent_said_is_found_in_responses(value: Any) -> None:
    assert told(read_messages(value, "assistant")) == [("assistant", [("text", "Yes")])]


@pytest.mark.parametrize(
    "value",
    [
        "AgentInput(input=3)",
        {"ev": "StopEvent()"},
        {"init_state": {"x": 1}},
        "",
        None,
        [],
        {},
    ],
)
def test_the_repr_of_an_object_and_unknown_state_are_nobodys_words(value: Any) -> None:
    assert read_messages(value) == ()


def test_a_skeleton_keeps_its_shape_and_has_no_text() -> None:
    (message,) = read_messages([{"role": "user", "parts": [{"type": "text"}]}])
    assert message.text == ""
    assert message.parts[0].text is None


def test_legacy_events_are_messages_wherever_their_calls_stand() -> None:
    call = {"id": "c1", "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
    inputs, outputs = event_messages(
        [
            ("gen_ai.system.message", {"content": "Be brief."}),
            ("gen_ai.user.message", '{"role": "user", "content": "Hi"}'),
            ("gen_ai.tool.message", {"content": "Sunny", "id": "c1"}),
            ("gen_ai.choice", {"index": 0, "message": {"content": None}, "tool_calls": [call]}),
        ]
    )
    assert [m.role for m in inputs] == ["system", "user", "tool"]
    assert told(tuple(inputs))[2] == ANSWERED
    assert told(tuple(outputs)) == [("assistant", [CALL])]


def test_a_failed_tool_says_so() -> None:
    for form in (
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}],
        },
        {
            "role": "user",
            "content": [{"toolResult": {"toolUseId": "c", "status": "error", "content": [{"text": "no"}]}}],
        },
        {"type": "tool", "content": "no", "tool_call_id": "c", "status": "error"},
        {
            "role": "tool",
            "content": [
                {"type": "tool-result", "toolCallId": "c", "output": {"type": "error-text", "value": "no"}}
            ],
        },
    ):
        (message,) = read_messages([form])
        assert message.parts[0].failed
        assert message.parts[0].data == "no"
