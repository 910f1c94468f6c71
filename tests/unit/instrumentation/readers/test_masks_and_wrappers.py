"""What says that content was left out is no content, and what wraps a value is not the value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.trace_builder import run_of, span

J = json.dumps
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
MASKS = ["<elided>", "REDACTED", "[REDACTED]", "<redacted>", "readacted", "__REDACTED__"]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "write",
    [
        lambda mask: [{"role": "user", "content": mask}],
        lambda mask: [{"role": "user", "content": [{"type": "text", "text": mask}]}],
        lambda mask: {"messages": [{"role": "user", "content": mask}]},
        lambda mask: mask,
    ],
)
def test_a_masked_text_is_no_text_in_any_form_of_message(write: Any, mask: str) -> None:
    assert run_of(span(1, {**CHAT, "gen_ai.input.messages": J(write(mask))})).input is None


@pytest.mark.parametrize("mask", MASKS)
def test_masked_arguments_and_results_are_not_recorded(mask: str) -> None:
    parts = [{"type": "tool_call", "id": "c1", "name": "look", "arguments": mask}]
    result = {"type": "tool_call_response", "id": "c1", "response": mask}
    given = [{"role": "assistant", "parts": parts}, {"role": "tool", "parts": [result]}]
    (call,) = run_of(span(1, {**CHAT, "gen_ai.input.messages": J(given)})).tool_calls
    assert (call.name, call.arguments, call.result) == ("look", None, None)


def test_masked_documents_keep_their_ids_only() -> None:
    document = "retrieval.documents.0.document."
    attributes = {
        "openinference.span.kind": "RETRIEVER",
        document + "id": "d1",
        document + "content": "__REDACTED__",
        document + "metadata": J({"author": "__REDACTED__", "pages": 3}),
    }
    run = run_of(span(1, {"openinference.span.kind": "AGENT"}), span(2, attributes))
    (found,) = run.documents
    assert (found.id, found.content, found.metadata) == ("d1", None, {"pages": 3})


@pytest.mark.parametrize("kind", [["text"], {"text": 1}, None, 3])
def test_a_result_whose_type_is_no_word_is_kept_as_it_is(kind: Any) -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look"}
    values: list[Any] = [{"type": kind, "value": 3}, {"type": kind, "text": "three"}]
    for value in [*values, values]:
        attributes = {**tool, "gen_ai.tool.call.result": J(value)}
        run = run_of(span(1, {"gen_ai.operation.name": "invoke_agent"}), span(2, attributes))
        assert [(call.name, call.result) for call in run.tool_calls] == [("look", value)]
