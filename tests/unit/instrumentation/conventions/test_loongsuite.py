"""Dify's workflows and LoongSuite's agents, which tell their kind in `gen_ai.span.kind`."""

from __future__ import annotations

from typing import Any

from tests.support.facts import case, missed, span

ASKED, SAID = "Does the ferry sail on Sundays?", "It sails at nine and at noon."
TOLD: dict[str, Any] = {"input": ASKED, "output": SAID}
KIND = "gen_ai.span.kind"


def _text(role: str, text: str) -> dict[str, object]:
    return {"role": role, "parts": [{"type": "text", "content": text}]}


def _dify(kind: str, **more: object) -> dict[str, object]:
    return {KIND: kind, "gen_ai.framework": "dify", **more}


DOCUMENT = {"document": {"content": "No sailings in winter.", "id": "d1", "score": 0.5}}


def test_a_workflow_of_dify_tells_question_answer_and_what_its_nodes_did() -> None:
    told = case(
        "workflow",
        span("app", _dify("CHAIN", **{"input.value": {"query": ASKED}, "output.value": {"answer": SAID}})),
        span("look up", _dify("RETRIEVER", **{"retrieval.query": ASKED, "retrieval.document": [DOCUMENT]})),
        span(
            "answer",
            _dify(
                "LLM",
                **{
                    "gen_ai.request.model": "m1",
                    "gen_ai.usage.input_tokens": 10,
                    "gen_ai.usage.output_tokens": 3,
                    "gen_ai.prompt": [{"role": "system", "text": "Be kind."}, {"role": "user", "text": "?"}],
                    "gen_ai.input.messages": [_text("system", "Be kind."), _text("user", ASKED)],
                    "gen_ai.output.messages": [{**_text("assistant", SAID), "finish_reason": "stop"}],
                    "output.value": {"text": "not whole"},
                },
            ),
        ),
        span(
            "tool",
            _dify(
                "TOOL",
                **{
                    "gen_ai.tool.name": "timetable",
                    "gen_ai.tool.call.arguments": {"day": "sunday"},
                    "gen_ai.tool.call.result": {"text": "9:00"},
                },
            ),
        ),
        span("start", _dify("TASK", **{"input.value": {"other": "words"}})),
        **TOLD,
        system="Be kind.",
        models=["m1"],
        usage=(10, 3),
        tools=[("timetable", {"day": "sunday"}, {"text": "9:00"}, "ok")],
        documents=["No sailings in winter."],
    )
    assert list(missed(told)) == []


def test_an_entry_is_the_run_and_its_steps_only_wrap() -> None:
    told = case(
        "entry",
        span(
            "enter",
            {
                KIND: "ENTRY",
                "gen_ai.session.id": "s3",
                "gen_ai.input.messages": [_text("user", ASKED)],
                "gen_ai.output.messages": [_text("assistant", SAID)],
            },
        ),
        span("agent", {KIND: "AGENT", "gen_ai.operation.name": "invoke_agent"}),
        span("step", {KIND: "STEP", "gen_ai.operation.name": "react", "input.value": "round 1"}, 1),
        span("chat", {KIND: "LLM", "gen_ai.operation.name": "chat", "gen_ai.request.model": "m1"}, 2),
        **TOLD,
        models=["m1"],
        conversation="s3",
    )
    assert list(missed(told)) == []


def test_a_kind_that_is_not_known_makes_no_run() -> None:
    told = case("other", span("x", {KIND: "MEMORY", "input.value": ASKED, "output.value": SAID}), runs=0)
    assert list(missed(told)) == []
