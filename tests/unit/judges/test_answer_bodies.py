"""What LiteLLM sees of a response: answers whole, and of everything else too little to be slow on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_evals._internal.judges.answer_bodies import bounded_body, bounded_headers

texts = st.text() | st.sampled_from(["eyJ-", "://a:", "-----BEGIN PRIVATE KEY-----"]).map(lambda t: t * 5_000)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)
answers = st.fixed_dictionaries(
    {},
    optional={
        "choices": values | st.lists(st.fixed_dictionaries({}, optional={"message": values}), max_size=2),
        "id": values,
        "created": values,
        "model": values,
        "usage": values | st.dictionaries(st.text(), values),
        "error": values,
        "content": values,
    },
)


CHAT, GEMINI, OTHER = "/v1/chat/completions", "/v1beta/models/m:generateContent", "/v1/messages"


def seen(value: Any, *, success: bool = True, path: str = CHAT) -> Any:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return json.loads(bounded_body(raw, success=success, path=path))


def lengths(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(lengths, value.values()))
    return (
        sum(map(lengths, value)) if isinstance(value, list) else len(value) if isinstance(value, str) else 0
    )


def completion(content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {"choices": [{"index": 0, "finish_reason": "stop", "message": message}], **more}


@settings(max_examples=50, deadline=None)
@given(answers | values)
def test_what_is_no_answer_is_cut_short(value: Any) -> None:
    for path in (CHAT, GEMINI, OTHER):
        assert lengths(seen(value, success=False, path=path)) <= 700
    assert lengths(seen(value, path=GEMINI)) <= 700  # it is of another form
    if isinstance(value, dict) and lengths(value.get("choices")) == 0:
        assert lengths(seen(value)) <= 1_500


@given(st.binary() | st.binary().map(lambda raw: raw * 1_000))
def test_what_is_no_json_is_cut_short(raw: bytes) -> None:
    assert len(bounded_body(raw, success=True, path=OTHER)) <= 2_400


def test_an_answer_keeps_its_text_its_calls_and_its_numbers() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    usage = {
        "prompt_tokens": 3,
        "completion_tokens_details": {"reasoning_tokens": 2},
        "cost": 0.5,
        "odd": "x",
    }
    given = completion("so " * 100_000, id="i", model="m", created=5, usage=usage)
    given["choices"][0]["message"]["tool_calls"] = [call]
    found = seen(given)
    (choice,) = found["choices"]
    assert choice["message"] == {"role": "assistant", "content": "so " * 100_000, "tool_calls": [call]}
    assert (found["id"], found["model"], found["created"], choice["finish_reason"]) == ("i", "m", 5, "stop")
    assert found["usage"]["prompt_tokens"] == 3
    assert found["usage"]["completion_tokens_details"] == {"reasoning_tokens": 2}
    assert found["usage"]["cost"] == 0.5
    assert "odd" not in found["usage"]


def test_an_answer_in_parts_is_joined() -> None:
    parts = [
        {"type": "thinking", "thinking": [{"text": "hm"}]},
        {"type": "text", "text": "so"},
        "x",
        {"text": 3},
    ]
    assert seen(completion(parts))["choices"][0]["message"]["content"] == "so"


@pytest.mark.parametrize("secret", ["sk-proj-" + "a1B2" * 8, "-----BEGIN PRIVATE KEY-----\nabc"])
def test_secrets_of_an_error_go(secret: str) -> None:
    assert secret not in json.dumps(seen({"error": {"message": f"wrong key {secret}"}}, success=False))


def test_an_error_s_code_and_first_words_are_there() -> None:
    error = {
        "error": {"message": "too long: " + "x" * 10_000, "code": "context_length_exceeded", "param": None}
    }
    found = seen({"object": "error", **error}, success=False)["error"]
    assert found["message"].startswith("too long: x")


def test_other_providers_answers_are_as_they_were() -> None:
    answer = {"content": [{"type": "text", "text": "x" * 10_000}], "usage": {"input_tokens": 1}}
    assert seen(answer, path=OTHER) == answer
    assert lengths(seen({"error": "x" * 10_000, **answer}, path=OTHER)) <= 700
    assert lengths(seen({"detail": "x" * 10_000}, path=OTHER)) <= 700


def test_an_answer_of_gemini_s_keeps_its_parts_its_calls_and_its_numbers() -> None:
    call = {"functionCall": {"name": "f", "args": {"a": [1]}}}
    parts = [{"text": "hm", "thought": True}, {"text": "so " * 10_000}, call]
    counts = {"promptTokenCount": 3, "promptTokensDetails": [{"modality": "TEXT"}]}
    content = {"role": "model", "parts": [*parts, "x", {"text": 3}, {"inlineData": {"data": "x" * 10_000}}]}
    given = {"candidates": [{"content": content, "finishReason": "STOP"}], "usageMetadata": counts}
    found = seen(given | {"more": "x" * 10_000}, path=GEMINI)
    assert found["candidates"][0]["content"]["parts"] == parts
    assert found["usageMetadata"]["promptTokenCount"] == 3
    assert lengths(found) < 31_000
    stopped = seen({"candidates": [{"finishReason": "SAFETY", "content": "x" * 10_000}]}, path=GEMINI)
    assert stopped["candidates"][0]["finishReason"] == "SAFETY"
    assert lengths(stopped) < 100
    blocked = {"promptFeedback": {"blockReason": "OTHER"}}
    assert seen(blocked, path=GEMINI) == blocked


def test_of_headers_only_those_that_matter_are_kept() -> None:
    kept = bounded_headers(
        {"retry-after": "5" * 5_000, "x-odd": "eyJ-" * 5_000, "content-type": "text/plain"}
    )
    assert kept == {"retry-after": "5" * 200, "content-type": "text/plain"}
