"""What was said and done is recorded where it is wanted, in OpenTelemetry's form, whatever it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from otel_evals_instrumentation import agent, inference, retrieval, tool
from tests.support.handwritten import Recorder, a_reply, support_agent

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CONTENT = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
    "gen_ai.retrieval.query.text",
    "gen_ai.retrieval.documents",
)


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


class Reply(pydantic.BaseModel, extra="allow"):
    """As OpenAI's client has them: objects all the way down."""

    role: str
    content: str | None


class Said(pydantic.BaseModel, extra="allow"):
    """As Anthropic's client has them."""


class Choice(pydantic.BaseModel, extra="allow"):
    message: Reply


class Completion(pydantic.BaseModel, extra="allow"):
    choices: list[Choice]


def text(role: str, content: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def replied(content: str) -> dict[str, Any]:
    return {**text("assistant", content), "finish_reason": "stop"}


# --- where ---


@pytest.mark.parametrize(
    ("mode", "on_spans"),
    [
        (None, False),
        ("", False),
        ("NO_CONTENT", False),
        ("false", False),
        ("anything", False),
        ("SPAN_ONLY", True),
        ("span_only", True),
        ("true", True),
        ("EVENT_ONLY", False),
        ("SPAN_AND_EVENT", True),
    ],
)
def test_the_environment_enables_content(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, mode: str | None, on_spans: bool
) -> None:
    monkeypatch.delenv(CAPTURE, raising=False)
    if mode is not None:
        monkeypatch.setenv(CAPTURE, mode)
    support_agent(**recorder.options)("What does order A-7 cost?")
    found = {key for span in recorder.spans for key in span.attributes or {}} & set(CONTENT)
    assert found == (set(CONTENT) if on_spans else set())


def test_an_argument_outweighs_the_environment(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CAPTURE, "SPAN_AND_EVENT")
    support_agent(capture_content=False, **recorder.options)("What does order A-7 cost?")
    assert {key for span in recorder.spans for key in span.attributes or {}} & set(CONTENT) == set()


def test_model_tokens_and_names_are_recorded_without_content(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CAPTURE, raising=False)
    support_agent(**recorder.options)("What does order A-7 cost?")
    attributes = recorder.spans[-2].attributes or {}
    assert attributes["gen_ai.response.model"] == "gpt-5-mini-2026-01-01"
    assert str(attributes["gen_ai.response.id"]).startswith("chatcmpl-")
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert (attributes["gen_ai.usage.input_tokens"], attributes["gen_ai.usage.output_tokens"]) == (50, 20)


def test_the_length_limit_of_the_sdk_applies() -> None:
    recorder = Recorder(SpanLimits(max_span_attribute_length=40))
    with agent("a", **recorder.capturing) as run:
        run.set_input("x" * 1000)
    assert len(str((recorder.span("invoke_agent a").attributes or {})["gen_ai.input.messages"])) == 40


def test_a_span_that_is_not_sampled_is_not_written_to(recorder: Recorder) -> None:
    class Watched:
        def __repr__(self) -> str:
            raise AssertionError("looked at")

    provider = TracerProvider(sampler=ALWAYS_OFF)
    looked = tool("t", capture_content=True, tracer_provider=provider)(lambda value: value)
    assert isinstance(looked(Watched()), Watched)


# --- in which form ---


def test_a_chat_of_openai_objects_is_written_in_opentelemetry_s_form(recorder: Recorder) -> None:
    reply = Completion.model_validate(a_reply(None, ("call_1", "find_order", {"order_id": "A-7"})))
    with inference("m", **recorder.capturing) as call:
        call.set_input(
            [
                {"role": "user", "content": [{"type": "text", "text": "Where is A-7?"}]},
                reply.choices[0].message,
                {"role": "tool", "tool_call_id": "call_1", "content": '{"eta": "Friday"}'},
            ]
        )
        call.set_reply(reply)
    wanted = {
        "type": "tool_call",
        "id": "call_1",
        "name": "find_order",
        "arguments": {"order_id": "A-7"},
    }
    question, called, told = recorder.value("chat m", "gen_ai.input.messages")
    assert question == text("user", "Where is A-7?")
    assert called == {"role": "assistant", "parts": [wanted]}
    assert told["role"] == "tool"
    assert told["parts"] == [{"type": "tool_call_response", "id": "call_1", "response": {"eta": "Friday"}}]
    assert recorder.value("chat m", "gen_ai.output.messages") == [
        {"role": "assistant", "parts": [wanted], "finish_reason": "tool_call"}
    ]


def test_a_reply_of_anthropic_is_read_with_all_its_tokens(recorder: Recorder) -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_input_tokens": 90,
        "cache_creation_input_tokens": 7,
    }
    reply = Said(
        id="msg_1",
        model="claude",
        role="assistant",
        stop_reason="end_turn",
        usage=Said(**usage),
        content=[Said(type="text", text="Hello")],
    )
    asked = inference("claude", **recorder.capturing)(lambda prompt: reply)
    assert asked("Hi") is reply
    attributes = recorder.span("chat claude").attributes or {}
    assert recorder.value("chat claude", "gen_ai.output.messages") == [replied("Hello")]
    assert attributes["gen_ai.usage.input_tokens"] == 107
    assert attributes["gen_ai.usage.cache_read.input_tokens"] == 90
    assert attributes["gen_ai.response.finish_reasons"] == ("end_turn",)


def test_chunks_of_openai_and_anthropic_streams_are_joined(recorder: Recorder) -> None:
    def openai_stream() -> Any:
        for piece in ("Hel", "lo"):
            yield {"model": "m-1", "choices": [{"delta": {"content": piece}, "finish_reason": None}]}
        yield {"model": "m-1", "choices": [{"delta": {}, "finish_reason": "stop"}]}
        yield {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}

    def anthropic_stream() -> Any:
        began = {"id": "msg_1", "model": "claude-1", "role": "assistant", "usage": {"input_tokens": 3}}
        yield {"type": "message_start", "message": began}
        for piece in ("Hel", "lo"):
            delta = SimpleNamespace(type="text_delta", text=piece)
            yield SimpleNamespace(type="content_block_delta", delta=delta)
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 2, "cache_read_input_tokens": 1},
        }

    def responses_stream() -> Any:
        for piece in ("Hel", "lo"):
            yield {"type": "response.output_text.delta", "delta": piece}
        usage = {"input_tokens": 3, "output_tokens": 2}
        yield {"type": "response.completed", "response": {"id": "r1", "model": "m-1", "usage": usage}}

    for name, stream in (("o", openai_stream), ("a", anthropic_stream), ("r", responses_stream)):
        list(inference(name, **recorder.capturing)(stream)())
        assert recorder.value(f"chat {name}", "gen_ai.output.messages") == [replied("Hello")]
        attributes = recorder.span(f"chat {name}").attributes or {}
        told = [attributes.get(f"gen_ai.usage.{side}_tokens") for side in ("input", "output")]
        assert (told, attributes["gen_ai.response.model"]) == ([3, 2], "claude-1" if name == "a" else "m-1")
    assert (recorder.span("chat a").attributes or {})["gen_ai.response.finish_reasons"] == ("end_turn",)
    assert (recorder.span("chat o").attributes or {})["gen_ai.response.finish_reasons"] == ("stop",)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            {
                "object": "response",
                "id": "r",
                "output": [
                    {
                        "type": "message",
                        "role": "assistant",
                        "content": [{"type": "output_text", "text": "Hello"}],
                    }
                ],
            },
            "Hello",
        ),
        ({"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}}]}, "Hello"),
    ],
    ids=["responses", "gemini"],
)
def test_replies_of_other_clients_are_read(recorder: Recorder, reply: Any, said: str) -> None:
    inference("m", **recorder.capturing)(lambda: reply)()
    assert recorder.value("chat m", "gen_ai.output.messages") == [replied(said)]


def test_a_stream_too_long_to_keep_is_not_recorded_in_part(recorder: Recorder) -> None:
    stream = agent("a", **recorder.capturing)(lambda: ("x" for _ in range(100_001)))
    assert sum(1 for _ in stream()) == 100_001
    assert recorder.value("invoke_agent a", "gen_ai.output.messages") is None


@pytest.mark.parametrize(
    ("output", "recorded"),
    [
        ("Hello", "Hello"),
        ('{"a": 1}', '{"a": 1}'),
        ({"text": "no message", "confidence": 1}, '{"text": "no message", "confidence": 1}'),
        ({"choices": ["a", "b"]}, '{"choices": ["a", "b"]}'),
        (["a", "b"], '["a", "b"]'),
        (7, "7"),
    ],
)
def test_an_answer_that_is_no_message_is_kept_as_it_is(
    recorder: Recorder, output: Any, recorded: str
) -> None:
    agent("a", **recorder.capturing)(lambda: output)()
    assert recorder.value("invoke_agent a", "gen_ai.output.messages") == [replied(recorded)]


def test_messages_in_opentelemetry_s_form_are_left_alone(recorder: Recorder) -> None:
    given = [{"role": "user", "parts": [{"type": "uri", "modality": "image", "uri": "https://x/y.png"}]}]
    with agent("a", **recorder.capturing) as run:
        run.set_input(given)
    assert recorder.value("invoke_agent a", "gen_ai.input.messages") == given


@pytest.mark.parametrize(
    ("call", "recorded"),
    [
        (lambda f: f("why"), "why"),
        (lambda f: f("u-1", "why"), "why"),
        (lambda f: f("u-1", question="why"), "why"),
        (lambda f: f("u-1", topic="x"), '{"user": "u-1", "topic": "x"}'),
    ],
)
def test_the_input_is_the_only_argument_or_the_one_called_so_or_all(
    recorder: Recorder, call: Any, recorded: str
) -> None:
    @agent("a", **recorder.capturing)
    def answer(user: str, question: str = "", topic: str = "") -> None:
        return None

    call(answer)
    assert recorder.value("invoke_agent a", "gen_ai.input.messages") == [text("user", recorded)]


def test_the_input_can_be_named_and_the_body_has_the_last_word(recorder: Recorder) -> None:
    @agent("a", input_from="ticket", **recorder.capturing)
    def answer(question: str, ticket: str) -> str:
        from otel_evals_instrumentation import AgentSpan

        AgentSpan.current().set_output("said inside")
        return "returned"

    answer("no", ticket="yes")
    assert recorder.value("invoke_agent a", "gen_ai.input.messages") == [text("user", "yes")]
    assert recorder.value("invoke_agent a", "gen_ai.output.messages") == [replied("said inside")]


def test_system_instructions_and_tools_take_their_standard_form(recorder: Recorder) -> None:
    function = {"name": "f", "description": "d", "parameters": {"type": "object"}}
    with agent("a", **recorder.capturing) as run:
        run.set_system("Be kind.")
        run.set_tools(
            [
                {"type": "function", "function": function},
                {"name": "f", "description": "d", "input_schema": {"type": "object"}},
            ]
        )
    assert recorder.value("invoke_agent a", "gen_ai.system_instructions") == [
        {"type": "text", "content": "Be kind."}
    ]
    assert (
        recorder.value("invoke_agent a", "gen_ai.tool.definitions") == [{"type": "function", **function}] * 2
    )


@pytest.mark.parametrize(
    ("found", "recorded"),
    [
        (["a", "b"], [{"content": "a"}, {"content": "b"}]),
        ([{"id": 1, "text": "a", "score": 0.5}], [{"id": "1", "score": 0.5, "content": "a"}]),
        (
            [(SimpleNamespace(page_content="a", metadata={}), 0.5)],
            [{"content": "a", "score": 0.5}],
        ),
        ([], []),
    ],
)
def test_documents_of_any_library_take_their_standard_form(
    recorder: Recorder, found: Any, recorded: Any
) -> None:
    retrieval("kb", **recorder.capturing)(lambda query: found)("why")
    assert recorder.value("retrieval kb", "gen_ai.retrieval.documents") == recorded
    assert (recorder.span("retrieval kb").attributes or {})["gen_ai.retrieval.query.text"] == "why"


# --- whatever it is ---


class Colour(Enum):
    RED = "red"


class Order(pydantic.BaseModel):
    id: str


@dataclass
class Line:
    order: Order
    price: Decimal


class Hostile:
    def __repr__(self) -> str:
        raise RuntimeError("no")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("no")


def endless() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


def deep() -> Any:
    value: Any = 1
    for _ in range(5_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("make", "recorded"),
    [
        (lambda: Line(Order(id="A-7"), Decimal("1.50")), {"order": {"id": "A-7"}, "price": 1.5}),
        (lambda: Colour.RED, "red"),
        (lambda: datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00+00:00"),
        (lambda: {1: "a"}, {"1": "a"}),
        (lambda: {("a", 1): "b"}, {"('a', 1)": "b"}),
        (lambda: float("nan"), "nan"),
        (Hostile, "<Hostile>"),
        (lambda: b"ab", "b'ab'"),
        (lambda: "\ud800", "?"),
        (lambda: {1}, [1]),
    ],
)
def test_values_that_json_has_no_form_for_are_described(recorder: Recorder, make: Any, recorded: Any) -> None:
    tool("t", **recorder.capturing)(lambda value: None)(make())
    assert recorder.value("execute_tool t", "gen_ai.tool.call.arguments") == {"value": recorded}


@pytest.mark.parametrize(
    "make", [endless, deep, Hostile, object, lambda: 10**5000, lambda: float("inf"), lambda: "x" * 2_000_000]
)
def test_what_is_recorded_is_bounded_and_the_call_never_notices(recorder: Recorder, make: Any) -> None:
    value = make()
    assert tool("t", **recorder.capturing)(lambda value: value)(value) is value
    for recorded in (recorder.span("execute_tool t").attributes or {}).values():
        assert len(str(recorded)) <= 1_000_000


def test_objects_with_many_items_are_recorded_whole(recorder: Recorder) -> None:
    found = Said(items=[{"id": number, "name": "x"} for number in range(3_000)])
    tool("search", **recorder.capturing)(lambda: found)()
    assert recorder.value("execute_tool search", "gen_ai.tool.call.result") == found.model_dump()


def test_numbers_and_truth_values_stay_what_they_are(recorder: Recorder) -> None:
    for n, value in enumerate((3, 2.5, True, "text")):
        tool(f"t{n}", **recorder.capturing)(lambda value: value)(value)
        assert (recorder.span(f"execute_tool t{n}").attributes or {})["gen_ai.tool.call.result"] == value


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.builds(Hostile),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=12,
)


@given(anything)
def test_recording_never_raises_and_always_writes_json(value: Any) -> None:
    recorder = Recorder()
    with inference("m", **recorder.capturing) as call, tool("t", **recorder.capturing) as used:
        for record in (call.set_input, call.set_output, call.set_reply, call.set_system, call.add_chunk):
            record(value)
        used.set_arguments({"value": value})
        used.set_result(value)
    with retrieval("kb", **recorder.capturing) as search:
        search.set_query(value)
        search.set_documents(value)
    for kind in (agent, inference, tool, retrieval):
        kind("f", **recorder.capturing)(lambda value: value)(value)
        list(kind("g", **recorder.capturing)(lambda value: (item for item in (value, value)))(value))
    for key in ("gen_ai.input.messages", "gen_ai.output.messages"):
        recorded = recorder.value("chat m", key)
        assert recorded is None or all(message["role"] for message in recorded)
    assert "value" in recorder.value("execute_tool t", "gen_ai.tool.call.arguments")
