"""Monocle: content in span events, names in numbered entities."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.facts import Case, case, missed, span

J = json.dumps
RULES, ASKED, SAID = "You rent out boats.", "Is the red boat free?", "The red one is."
LOOK, FORM = {"boat": "red"}, {"boat": "red", "day": "friday"}
CONFIRMED = "Returning structured response: boat='red' day='friday'"
_FORM_CALL = {"type": "tool_call", "id": "c1", "name": "Booking", "args": FORM}


def _monocle(name: str, kind: str, given: Any, said: Any, above: int = 0, **more: Any) -> dict[str, Any]:
    events = [("data.input", {"input": given}), ("data.output", {"response": said})]
    events += [("metadata", more.pop("numbers", {}))]
    attributes = {"monocle_apptrace.version": "0.8", "span.type": kind, **more.pop("attributes", {})}
    return span(name, attributes, above, events=events, scope="monocle_apptrace", **more)


_LOOKED = [{"tool_id": "c1", "tool_name": "look", "tool_arguments": J(LOOK)}]
_HISTORY = [J({"user": ASKED}), J({"assistant": [J({"tool_function": "look", "tool_arguments": J(LOOK)})]})]
MONOCLE = [
    case(
        "Monocle: an agent with a tool",
        span("workflow", {"monocle_apptrace.version": "0.8", "span.type": "workflow"}),
        _monocle("graph.invoke", "agentic.turn", J([ASKED]), SAID, end_time=900),
        _monocle(
            "graph.invoke",
            "agentic.invocation",
            J([ASKED]),
            SAID,
            above=1,
            attributes={"entity.1.type": "agent.langgraph", "entity.1.name": "clerk"},
        ),
        _monocle(
            "look",
            "agentic.tool.invocation",
            str(LOOK),
            str({"free": True}),
            above=2,
            attributes={
                "entity.1.name": "look",
                "entity.2.type": "agent.langgraph",
                "entity.2.name": "clerk",
            },
        ),
        agent="clerk",
        input=ASKED,
        output=SAID,
        tools=[("look", LOOK, {"free": True}, "ok")],
    ),
    case(
        "Monocle: two calls of a model, each in a workflow of its own",
        span("app", {}),
        _monocle(
            "create",
            "inference",
            [J({"system": RULES}), _HISTORY[0]],
            J({"assistant": _LOOKED}),
            attributes={"entity.2.type": "model.llm.m1", "entity.2.name": "m1"},
            numbers={"prompt_tokens": 9, "completion_tokens": 2},
        ),
        _monocle(
            "create",
            "inference",
            [J({"system": RULES}), *_HISTORY, J({"tool": J({"free": True})})],
            J({"assistant": SAID}),
            numbers={"prompt_tokens": 20, "completion_tokens": 3},
        ),
        system=RULES,
        input=ASKED,
        output=SAID,
        models=["m1"],
        usage=(29, 5),
        tools=[("look", LOOK, {"free": True}, "unknown")],
    ),
    case(
        "Monocle: calls of a streamed response",
        span("app", {}),
        _monocle(
            "create",
            "inference",
            [_HISTORY[0]],
            J({"tools": [{**_LOOKED[0], "tool_arguments": ""}]}),
            numbers={"finish_reason": "tool_calls"},
        ),
        _monocle("create", "inference", [*_HISTORY, J({"tool": "free"})], J({"assistant": SAID})),
        output=SAID,
        tools=[("look", LOOK, "free", "unknown")],
    ),
    case(
        "Monocle: the text of an error is no answer",
        _monocle("create", "inference", [_HISTORY[0]], "Error code: 400", status="ERROR"),
        input=ASKED,
        output=None,
        error="error",
    ),
    case(
        "Monocle: an answer that only confirms the call that gave it its form",
        span(
            "graph.invoke",
            {"span.type": "agentic.invocation", "entity.1.type": "agent.langgraph", "entity.1.name": "clerk"},
            scope="monocle_apptrace",
            events=[("data.input", {"input": J([ASKED])}), ("data.output", {"response": CONFIRMED})],
        ),
        span(
            "model.invoke",
            {"span.type": "inference.framework"},
            scope="monocle_apptrace",
            events=[
                ("data.input", {"input": [J({"system": RULES}), J({"human": ASKED})]}),
                ("data.output", {"response": J({"ai": _FORM_CALL})}),
            ],
        ),
        agent="clerk",
        system=RULES,
        input=ASKED,
        output=J(FORM),
        tools=[],
    ),
]


@pytest.mark.parametrize("told", MONOCLE, ids=lambda told: told.name)
def test_it_is_read(told: Case) -> None:
    assert list(missed(told)) == []
