"""Messages of the current conventions are decoded by type: what the reader of all forms makes of them."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from otel_evals_instrumentation._internal.readers.inputs_outputs import typed_messages
from otel_evals_instrumentation._internal.readers.messages import read_messages
from otel_evals_instrumentation._internal.readers.values import parse

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
WORDS = st.sampled_from(("", "a", "[REDACTED]", "\ud800", "ü", '{"a": 1}', "<not specified>", " 3 "))
IDS = st.none() | WORDS
PARTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "content": WORDS}, optional={"extra": VALUES}),
    st.fixed_dictionaries(
        {"type": st.just("tool_call"), "name": IDS}, optional={"id": IDS, "arguments": VALUES, "x": VALUES}
    ),
    st.fixed_dictionaries(
        {"type": st.just("tool_call_response")}, optional={"id": IDS, "response": VALUES, "result": VALUES}
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(("reasoning", "blob", "other"))}, optional={"content": WORDS}
    ),
    VALUES,
)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(("user", "assistant", "system", "tool", "model", ""))},
    optional={"parts": st.lists(PARTS, max_size=3), "name": IDS, "finish_reason": WORDS, "extra": WORDS},
)


def said(role: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts), **more}


def text(content: Any) -> dict[str, Any]:
    return {"type": "text", "content": content}


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.booleans())
@example([said("tool", text("3"))], True)
@example([said("tool")], True)
@example([said("tool", name="a")], True)
@example([said("user", name="[REDACTED]")], True)
@example([said("assistant", {"type": "tool_call", "name": "f", "arguments": math.nan})], True)
def test_a_text_is_the_messages_of_the_list_that_it_spells_out(messages: list[Any], escaped: bool) -> None:
    written = json.dumps(messages, ensure_ascii=escaped)
    typed, spelled_out = typed_messages(written), read_messages(json.loads(written))
    assert repr(read_messages(written)) == repr(spelled_out)
    assert typed is None or repr(typed) == repr(spelled_out)


@given(VALUES | st.lists(MESSAGES, max_size=2), st.booleans(), st.sampled_from(("", " ", "\n", "x")))
@example(10**40, True, "")
@example([1e400], True, "")
def test_json_is_parsed_as_pythons_own_decoder_does(value: Any, escaped: bool, end: str) -> None:
    written = json.dumps([value], ensure_ascii=escaped) + end
    try:
        expected = json.loads(written)
    except ValueError:
        expected = written
    assert repr(parse(written)) == repr(expected)
