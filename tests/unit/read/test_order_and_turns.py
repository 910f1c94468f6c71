"""Which calls were made in which order, and what a list that was cut off can still say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals.model import Run
from tests.support.trace_builder import run_of, span

J = json.dumps
CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
AGENT = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "parts": [{"type": "text", "content": text}]}


def asked(*calls: tuple[str, str | None, Any]) -> dict[str, Any]:
    parts = [{"type": "tool_call", "id": i, "name": name, "arguments": given} for name, i, given in calls]
    return {"role": "assistant", "parts": parts}


def gave(*results: tuple[str | None, Any]) -> dict[str, Any]:
    parts = [{"type": "tool_call_response", "id": i, "response": value} for i, value in results]
    return {"role": "tool", "parts": parts}


def chat(given: list[Any], out: list[Any]) -> dict[str, Any]:
    return {**CHAT, "gen_ai.input.messages": J(given), "gen_ai.output.messages": J(out)}


def tool(name: str, arguments: Any, **more: Any) -> dict[str, Any]:
    own = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return {**own, "gen_ai.tool.call.arguments": J(arguments), **more}


def told(run: Run) -> list[tuple[str, Any, Any]]:
    return [(c.name, c.arguments, c.result) for c in run.tool_calls]


def test_results_without_ids_belong_to_calls_as_the_model_asked_for_them() -> None:
    """Parallel tools may begin in another order than the one in which the model named them."""
    run = run_of(
        span(1, AGENT),
        span(2, chat([user("q")], [asked(("weather", None, "north"), ("weather", None, "south"))])),
        span(3, tool("weather", "south")),
        span(4, tool("weather", "north")),
        span(5, chat([user("q"), gave((None, "cold"), (None, "warm"))], [said("done")])),
    )
    assert sorted(told(run)) == [("weather", "north", "cold"), ("weather", "south", "warm")]


def test_spans_that_began_at_once_stand_as_the_model_asked_for_them() -> None:
    run = run_of(
        span(1, AGENT),
        span(2, chat([user("q")], [asked(("second", "c2", {}), ("first", "c1", {}))])),
        span(3, tool("first", {}, **{"gen_ai.tool.call.id": "c1"}), start_time=30),
        span(4, tool("second", {}, **{"gen_ai.tool.call.id": "c2"}), start_time=30),
    )
    assert [c.name for c in run.tool_calls] == ["second", "first"]


def test_calls_that_were_handed_over_come_before_the_one_that_was_made() -> None:
    """A conversation begun elsewhere: its call has no span, the new one has."""
    given = [user("q"), asked(("old", "c0", {})), gave(("c0", 1))]
    run = run_of(
        span(1, {**AGENT, "gen_ai.input.messages": J(given)}),
        span(2, chat(given, [asked(("new", "c1", {}))])),
        span(3, tool("new", {}, **{"gen_ai.tool.call.id": "c1", "gen_ai.tool.call.result": "2"})),
    )
    assert [c.name for c in run.tool_calls] == ["old", "new"]


def test_a_call_comes_after_those_whose_results_it_was_made_with() -> None:
    """A handoff that only messages tell follows the tool, though that tool's span began late."""
    first, handoff = asked(("look_up", "c1", {})), asked(("transfer_to_b", "c2", {}))
    run = run_of(
        span(1, AGENT),
        span(2, chat([user("q"), first, gave(("c1", 1)), handoff, gave(("c2", "b"))], [said("done")])),
        span(3, tool("look_up", {}, **{"gen_ai.tool.call.id": "c1"})),
    )
    assert [c.name for c in run.tool_calls] == ["look_up", "transfer_to_b"]


@pytest.mark.parametrize(
    "history", [[asked(("old", "c0", {"n": 1})), gave(("c0", 1))], [said("An old answer.")]]
)
def test_a_list_cut_off_in_its_history_does_not_say_what_was_asked(history: list[Any]) -> None:
    """What is left of the list ends in an earlier turn: its question and calls are not those of this one."""
    text = J([user("An old question"), *history, user("The new question")])
    cut = text[: text.index("The new")]
    run = run_of(
        span(1, AGENT),
        span(2, {**chat([], [asked(("new", "c1", {}))]), "gen_ai.input.messages": cut}),
        span(3, tool("new", {}, **{"gen_ai.tool.call.id": "c1"})),
    )
    assert run.input is None
    assert [c.name for c in run.tool_calls] == ["new"]


def test_a_list_cut_off_in_this_turn_still_says_what_was_asked() -> None:
    text = J([user("The question"), asked(("new", "c1", {})), gave(("c1", "long " * 20))])
    run = run_of(
        span(1, AGENT),
        span(2, chat([user("The question")], [asked(("new", "c1", {}))]), start_time=15),
        span(3, {**chat([], [said("Done.")]), "gen_ai.input.messages": text[:-40]}),
    )
    assert (run.input, [c.name for c in run.tool_calls], run.output) == ("The question", ["new"], "Done.")


def test_the_providers_own_tools_stand_in_the_message_that_answers() -> None:
    """OpenTelemetry's own example: a call, its result and the answer in one message of the model."""
    parts = [
        {"type": "tool_call", "id": "s1", "name": "web_search", "arguments": {"query": "tides"}},
        {"type": "tool_call_response", "id": "s1", "response": "high at nine"},
        {"type": "text", "content": "High tide is at nine."},
    ]
    run = run_of(span(1, chat([user("When?")], [{"role": "assistant", "parts": parts}])))
    assert run.output == "High tide is at nine."
    assert told(run) == [("web_search", {"query": "tides"}, "high at nine")]


@pytest.mark.parametrize("above", [1, 2])
def test_a_tool_named_with_its_mcp_server_and_the_servers_span_are_one_call(above: int) -> None:
    """The server's span may stand below the call or beside it, within its time."""
    run = run_of(
        span(1, AGENT),
        span(2, tool("mcp__tides__high_tide", {"port": "x"}), end_time=90),
        span(
            3, {"mcp.method.name": "tools/call", "gen_ai.tool.name": "high_tide"}, parent=above, kind="SERVER"
        ),
    )
    assert [c.name for c in run.tool_calls] == ["mcp__tides__high_tide"]
