"""Forms that older versions of instrumentations write: each brings back the same conversation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_evals._internal.read.runs import find_runs
from otel_evals.model import OperationKind, Run, SpanRecord
from tests.support.trace_builder import DIALECTS, run_of, span

QUESTION, ANSWER, RESULT = "Is the library open?", "It is open until six.", "open 9-18"
ARGUMENTS = {"day": "monday"}
J = json.dumps


def assert_whole(run: Run, *, call_id: str | None = "c1") -> None:
    assert (run.input, run.output) == (QUESTION, ANSWER)
    (call,) = run.tool_calls
    assert (call.name, call.arguments, call.result, call.id) == ("opening_hours", ARGUMENTS, RESULT, call_id)


# --- OpenLLMetry ---


def test_a_model_call_under_an_unknown_operation_is_known_by_its_request() -> None:
    chat = {"gen_ai.operation.name": "some_request", "llm.request.type": "chat", "gen_ai.request.model": "m"}
    run = run_of(
        span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a"}),
        span(
            2,
            {
                **chat,
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": QUESTION,
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": ANSWER,
            },
        ),
    )
    assert (run.input, run.output) == (QUESTION, ANSWER)
    assert run.operations[1].kind is OperationKind.INFERENCE


def test_an_unknown_operation_without_a_request_stays_a_wrapper() -> None:
    attributes = {"gen_ai.operation.name": "some_step", "gen_ai.request.model": "m"}
    run = run_of(span(1, {"gen_ai.operation.name": "invoke_agent"}), span(2, attributes))
    assert run.operations[1].kind is OperationKind.OTHER


def test_parts_that_a_message_spells_out_as_json_are_read() -> None:
    blocks = J([{"type": "text", "text": QUESTION}, {"type": "image_url", "image_url": {"url": "u"}}])
    attributes = {
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": blocks,
        "gen_ai.completion.0.content": ANSWER,
    }
    run = run_of(span(1, attributes))
    assert (run.input, run.output) == (QUESTION, ANSWER)
    assert [part.kind for part in run.input_messages[0].parts] == ["text", "media"]


@pytest.mark.parametrize("text", ['[{"type": "order", "text": "two"}]', '[{"a": 1}]', "[{not json", "[{}]"])
def test_other_json_in_a_message_is_what_the_user_wrote(text: str) -> None:
    attributes = {"llm.request.type": "chat", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": text}
    assert run_of(span(1, attributes)).input == text


def test_results_without_ids_go_in_order_to_spans_without_results() -> None:
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": QUESTION,
    }
    tool = {"traceloop.span.kind": "tool", "gen_ai.completion.tool.name": "opening_hours"}
    results = {
        f"gen_ai.prompt.{at}.{key}": value
        for at, text in ((2, "open 9-18"), (3, "closed"))
        for key, value in (("role", "tool"), ("content", text))
    }
    spans = [
        span(1, {"traceloop.span.kind": "agent", "gen_ai.agent.name": "a"}),
        span(2, chat),
        span(3, tool, name="opening_hours.tool"),
        span(4, tool, name="opening_hours.tool"),
        span(5, {**chat, **results, "gen_ai.completion.0.content": ANSWER}),
    ]
    run = run_of(*spans)
    told = [(call.name, call.result) for call in run.tool_calls]
    assert told == [("opening_hours", "open 9-18"), ("opening_hours", "closed")]
    (fewer,) = find_runs([s for s in spans if s.span_id != f"{4:016x}"], DIALECTS)
    assert [call.result for call in fewer.tool_calls] == [None], "two results of one call: whose is whose?"


def test_documents_that_a_step_was_given_are_those_that_were_retrieved() -> None:
    documents = [
        {"lc": 1, "type": "constructor", "id": ["x", "Document"], "kwargs": {"page_content": text}}
        for text in ("Open from nine.", "Closed on sunday.")
    ]
    task = {"traceloop.span.kind": "task", "traceloop.entity.input": J({"inputs": documents, "tags": []})}
    workflow = {"traceloop.span.kind": "workflow", "traceloop.entity.input": J({"inputs": QUESTION})}
    chat = {"llm.request.type": "chat", "gen_ai.completion.0.content": ANSWER}
    run = run_of(span(1, workflow), span(2, task), span(3, chat))
    assert [d.content for d in run.documents] == ["Open from nine.", "Closed on sunday."]
    retriever = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": J([{"content": "Own."}])}
    run = run_of(span(1, workflow), span(2, task), span(3, chat), span(4, retriever))
    assert [d.content for d in run.documents] == ["Own."], "a retriever knows best"


def test_documents_that_say_nothing_at_all_are_none() -> None:
    documents = J([{"id": None, "score": None}, {"id": "d1", "score": None}])
    attributes = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": documents}
    assert [d.id for d in run_of(span(1, attributes)).documents] == ["d1"]


@pytest.mark.parametrize("operation", ["chat", "invoke_agent"])
def test_spans_that_began_after_the_model_call_above_are_not_below_it(operation: str) -> None:
    chat = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    said = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]
    later = {"gen_ai.operation.name": operation, "gen_ai.output.messages": J(said)}
    first = span(1, {**chat, "gen_ai.output.messages": J(said)}, end_time=15)
    runs = find_runs([first, span(2, later)], DIALECTS)
    assert [len(run.operations) for run in runs] == [1, 1]
    runs = find_runs([span(1, chat), span(2, later)], DIALECTS)
    assert [len(run.operations) for run in runs] == [2], "while it runs, it may hold others"


def test_a_conversation_handed_over_without_a_users_message_is_all_of_this_turn() -> None:
    call = {"type": "tool_call", "id": "c1", "name": "opening_hours", "arguments": ARGUMENTS}
    handed = [
        {"role": "assistant", "parts": [{"type": "text", "content": "The user wants to know."}]},
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": RESULT}]},
    ]
    asked = [{"role": "user", "parts": [{"type": "text", "content": QUESTION}]}]
    said = [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]
    chat = {"gen_ai.operation.name": "chat"}

    def run(later: list[dict[str, Any]]) -> Run:
        messages = {"gen_ai.input.messages": J(later), "gen_ai.output.messages": J(said)}
        agent = span(1, {"gen_ai.operation.name": "invoke_agent"})
        return run_of(
            agent, span(2, {**chat, "gen_ai.input.messages": J(asked)}), span(3, {**chat, **messages})
        )

    assert_whole(run(handed))
    wordless = {"role": "user", "parts": [{"type": "text"}]}
    assert run([wordless, *handed, wordless]).tool_calls == (), "words left out: nobody knows where turns end"


def test_a_conversation_among_a_functions_arguments_is_what_was_asked() -> None:
    arguments = [{"name": "a", "tools": []}, "You help.", [{"role": "user", "content": QUESTION}], None]
    agent = {"traceloop.span.kind": "agent", "traceloop.entity.input": J({"args": arguments, "kwargs": {}})}
    assert run_of(span(1, {**agent, "gen_ai.agent.name": "a"})).input == QUESTION
    history = [QUESTION, [{"role": "user", "content": "Before?"}, {"role": "assistant", "content": "Yes."}]]
    agent["traceloop.entity.input"] = J({"args": history, "kwargs": {}})
    chat = span(2, {"gen_ai.operation.name": "chat", "gen_ai.prompt": QUESTION})
    assert run_of(span(1, agent), chat).input == QUESTION, "what was said before asks nothing"


def test_a_models_response_among_what_a_function_gave_is_its_answer() -> None:
    said = [{"type": "output_text", "text": ANSWER}]
    message = J({"type": "message", "role": "assistant", "content": said})
    gave = {"original_input": QUESTION, "model_response": {"output": [message]}, "next_step": {"output": "x"}}
    agent = {"traceloop.span.kind": "agent", "gen_ai.agent.name": "a", "traceloop.entity.output": J(gave)}
    assert run_of(span(1, agent)).output == ANSWER


def test_arguments_that_langsmith_wrote_as_text_are_arguments() -> None:
    tool = {"langsmith.span.kind": "tool", "gen_ai.tool.name": "opening_hours"}
    chain = span(1, {"langsmith.span.kind": "chain"})
    run = run_of(chain, span(2, {**tool, "gen_ai.prompt": J({"input": str(ARGUMENTS)})}))
    assert run.tool_calls[0].arguments == ARGUMENTS
    run = run_of(chain, span(2, {**tool, "gen_ai.prompt": J({"input": "monday"})}))
    assert run.tool_calls[0].arguments == {"input": "monday"}


# --- others ---


def test_events_without_a_choice_end_in_the_answer() -> None:
    events: list[dict[str, Any]] = [
        {"event.name": "gen_ai.user.message", "role": "user", "content": QUESTION},
        {"event.name": "gen_ai.assistant.message", "role": "assistant", "content": ANSWER},
    ]
    attributes = {"gen_ai.request.model": "m", "logfire.msg_template": "Responses API with {model!r}"}
    run = run_of(span(1, {**attributes, "events": J(events)}, scope_name="logfire.openai"))
    assert (run.input, run.output) == (QUESTION, ANSWER)
    run = run_of(span(1, {**attributes, "events": J(events[:1])}, scope_name="logfire.openai"))
    assert (run.input, run.output) == (QUESTION, None)


def test_a_workflow_whose_state_stands_in_a_message_was_asked_what_the_state_says() -> None:
    def given(operation: str, text: str) -> SpanRecord:
        message = {"role": "user", "parts": [{"type": "text", "content": text}]}
        return span(1, {"gen_ai.operation.name": operation, "gen_ai.input.messages": J([message])})

    chat = span(2, {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
    state = J({"question": QUESTION})
    assert run_of(given("invoke_workflow", state), chat).input == QUESTION
    assert run_of(given("invoke_workflow", '{"colour": 3}'), chat).input == '{"colour": 3}'
    assert run_of(given("invoke_agent", state), chat).input == state, "a user may send JSON to an agent"


def test_openinference_calls_and_results_come_whole_from_request_and_reply() -> None:
    calls = [
        {"type": "tool_use", "id": f"c{n}", "name": "opening_hours", "input": {"day": n}} for n in (1, 2)
    ]
    results = [{"type": "tool_result", "tool_use_id": f"c{n}", "content": f"open {n}"} for n in (1, 2)]
    ask = {"role": "user", "content": QUESTION}
    turn = [ask, {"role": "assistant", "content": calls}, {"role": "user", "content": results}]
    told: dict[str, Any] = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": QUESTION,
    }
    spelled = {
        f"message.tool_calls.{n}.tool_call.function.{key}": value
        for n in (0, 1)
        for key, value in (("name", "opening_hours"), ("arguments", J({"day": n + 1})))
    }
    llm = {"openinference.span.kind": "LLM"}
    first = {
        **llm,
        **told,
        **{f"llm.output_messages.0.{key}": value for key, value in spelled.items()},
        "llm.output_messages.0.message.role": "assistant",
        "input.value": J({"messages": [ask]}),
        "output.value": J({"role": "assistant", "content": calls}),
    }
    second = {
        **llm,
        **told,
        **{f"llm.input_messages.1.{key}": value for key, value in spelled.items()},
        "llm.input_messages.1.message.role": "assistant",
        "llm.input_messages.2.message.role": "user",
        "llm.input_messages.2.message.tool_call_id": "c2",
        "llm.input_messages.2.message.content": "open 2",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.content": ANSWER,
        "input.value": J({"messages": turn}),
    }
    run = run_of(span(1, {"openinference.span.kind": "CHAIN"}), span(2, first), span(3, second))
    assert (run.input, run.output) == (QUESTION, ANSWER)
    found = [(call.id, call.arguments, call.result) for call in run.tool_calls]
    assert found == [("c1", {"day": 1}, "open 1"), ("c2", {"day": 2}, "open 2")]


@pytest.mark.parametrize("operation", ["chat.completions", "chat.streaming_completions", "text.completions"])
def test_operations_with_a_dot_are_what_stands_before_it(operation: str) -> None:
    prompt = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "summary"}
    chat = {"gen_ai.operation.name": operation, "gen_ai.prompt": QUESTION, "gen_ai.completion": ANSWER}
    run = run_of(span(1, {"gen_ai.operation.name": "invoke_agent"}), span(2, chat))
    assert (run.input, run.output) == (QUESTION, ANSWER)
    run = run_of(span(1, prompt), span(2, chat))
    assert (run.input, run.output, run.tool_calls) == (QUESTION, ANSWER, ()), "a prompt, called a function"
    run = run_of(span(1, prompt, kind="SERVER"), span(2, chat))
    assert [call.name for call in run.tool_calls] == ["summary"], "somebody elsewhere called it"


def test_a_tool_that_asks_a_model_beside_model_calls_is_a_tool() -> None:
    ask = {"role": "user", "content": QUESTION}
    chat = {"gen_ai.operation.name": "chat", "gen_ai.prompt": J([ask])}
    function = {"name": "opening_hours", "arguments": J(ARGUMENTS)}
    call = {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]}
    told = {"role": "tool", "tool_call_id": "c1", "content": RESULT}
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "opening_hours"}
    inner = {"gen_ai.operation.name": "chat", "gen_ai.prompt": "Read this.", "gen_ai.completion": "Read."}
    last = {
        "gen_ai.operation.name": "chat",
        "gen_ai.prompt": J([ask, call, told]),
        "gen_ai.completion": ANSWER,
    }
    run = run_of(
        span(1, {"http.route": "/"}),
        span(2, {**chat, "gen_ai.completion": J(call)}),
        span(3, {**tool, "gen_ai.tool.call.id": "c1"}, end_time=60),
        span(4, inner, parent=3),
        span(7, last),
    )
    assert_whole(run)
    assert [o.kind for o in run.of_kind(OperationKind.TOOL)] == [OperationKind.TOOL]
