"""What says that content was left out is no content, and what wraps a value is not the value."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals.model import Availability, OperationKind
from tests.support.trace_builder import KNOWN_CONVENTIONS, run_of, span

J = json.dumps
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
MASKS = ["<elided>", "REDACTED", "[REDACTED]", "<redacted>", "readacted", "__REDACTED__"]


@pytest.mark.parametrize("mask", MASKS)
def test_a_masked_part_of_a_message_is_no_text(mask: str) -> None:
    """Each part may be masked by itself; what was said is then off, not the mask."""

    def message(role: str) -> str:
        return J([{"role": role, "parts": [{"type": "text", "content": mask}]}])

    run = run_of(
        span(
            1,
            {
                **CHAT,
                "gen_ai.input.messages": message("user"),
                "gen_ai.output.messages": message("assistant"),
            },
        )
    )
    assert (run.input, run.output) == (None, None)
    assert run.availability["input"] is run.availability["output"] is Availability.CAPTURED_OFF


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


def test_a_description_of_an_agent_is_no_question_without_content() -> None:
    """CrewAI's input is its agent and its tools, and its agent has a field `role`."""
    asked = J({"agent": {"role": "support", "goal": "answer"}, "context": "", "tools": []})
    kind = {"openinference.span.kind": "AGENT"}
    run = run_of(span(1, {**kind, "input.value": asked, "output.value": "It arrives on Monday."}))
    assert (run.input, run.availability["input"]) == (None, Availability.NOT_RECORDED)


def test_words_that_only_contain_a_mask_are_words() -> None:
    text = "Why does it say [REDACTED] here?"
    assert (
        run_of(span(1, {**CHAT, "gen_ai.input.messages": J([{"role": "user", "content": text}])})).input
        == text
    )


@pytest.mark.parametrize("value", [{"result": "ok"}, {"result": None}, {"result": {"result": 1}}])
def test_a_result_that_is_an_object_with_a_result_stays_one(value: Any) -> None:
    tool = {"ai.operationId": "ai.toolCall", "ai.toolCall.name": "look", "ai.toolCall.result": J(value)}
    run = run_of(span(1, {"ai.operationId": "ai.generateText"}), span(2, tool))
    assert run.tool_calls[0].result == value


def test_a_result_that_the_convention_wraps_is_unwrapped() -> None:
    """Gemini's SDKs put what is no object into one."""
    response = {"functionResponse": {"name": "look", "id": "f1", "response": {"result": "ok"}}}
    call = {"functionCall": {"name": "look", "id": "f1", "args": {}}}
    given = {"contents": [{"role": "model", "parts": [call]}, {"role": "user", "parts": [response]}]}
    (told,) = run_of(span(1, {**CHAT, "gen_ai.input.messages": J(given)})).tool_calls
    assert told.result == "ok"


def test_a_reranker_brings_documents_and_answers_nothing() -> None:
    """Traceloop writes ranks as texts of an assistant; the documents stand among the prompts."""
    attributes = {
        "llm.request.type": "rerank",
        "gen_ai.request.model": "rank-3",
        "gen_ai.prompt.0.role": "system",
        "gen_ai.prompt.0.content": "Tides rise twice a day.",
        "gen_ai.prompt.1.role": "system",
        "gen_ai.prompt.1.content": "Boats float.",
        "gen_ai.prompt.2.role": "user",
        "gen_ai.prompt.2.content": "When do tides rise?",
        "gen_ai.completion.0.role": "assistant",
        "gen_ai.completion.0.content": "Doc 1, Score: 0.98",
        "gen_ai.completion.1.role": "assistant",
        "gen_ai.completion.1.content": "Doc 0, Score: 0.25\nTides rise twice a day.",
    }
    operation = KNOWN_CONVENTIONS.read(span(1, attributes))
    assert operation is not None
    assert operation.kind is OperationKind.RETRIEVAL
    assert [(d.content, d.score, d.query) for d in operation.documents] == [
        ("Boats float.", 0.98, "When do tides rise?"),
        ("Tides rise twice a day.", 0.25, "When do tides rise?"),
    ]
    assert run_of(span(1, attributes)).output is None
