"""A scorer reads a run: it cannot change what other scorers judge, or what is recorded."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.trace import Span

from otel_evals import Run, Score, scorer
from otel_evals.model import Document, Message, Operation, Part, SpanEvent, SpanRecord, ToolCall
from tests.behaviour.app import App

DEFINITIONS = json.dumps([{"type": "function", "name": "lookup_order", "parameters": {"type": "object"}}])
DOCUMENTS = json.dumps([{"id": "d1", "content": "Ships on Monday.", "metadata": {"page": 1}}])
ASKED = [
    {"role": "user", "parts": [{"type": "text", "content": "q"}]},
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c1", "name": "t", "arguments": {"order": "A"}}],
    },
]


def operation(run: Run, kind: str, number: int = 0) -> Operation:
    return [o for o in run.operations if o.kind == kind][number]


CHANGES: dict[str, Callable[[Run], object]] = {
    "an argument": lambda run: run.tool_calls[0].arguments.pop("order_id"),
    "a result": lambda run: run.tool_calls[0].result["items"].append("more"),
    "a result's dict": lambda run: run.tool_calls[0].result["items"][0].update(n=2),
    "the call of an operation": lambda run: operation(run, "tool").tool_call.arguments.clear(),  # type: ignore[union-attr]
    "a message's part": lambda run: (
        operation(run, "inference", -1).input_messages[1].parts[0].data.pop("order")
    ),
    "definitions of tools": lambda run: operation(run, "inference", -1).tool_definitions[0].pop("name"),  # type: ignore[attr-defined]
    "a document": lambda run: run.documents[0].metadata.pop("page"),  # type: ignore[attr-defined]
    "a span's attributes": lambda run: run.root.span.attributes.clear(),  # type: ignore[union-attr,attr-defined]
    "an event's attributes": lambda run: run.root.span.events[0].attributes.clear(),  # type: ignore[union-attr,attr-defined]
    "the resource": lambda run: run.resource.update(tenant="x"),  # type: ignore[attr-defined]
    "the tree": lambda run: run.children.clear(),  # type: ignore[attr-defined]
    "what was recorded": lambda run: run.availability.clear(),  # type: ignore[attr-defined]
    "where from": lambda run: run.sources.clear(),  # type: ignore[attr-defined]
    "an operation's availability": lambda run: operation(run, "inference").availability.clear(),  # type: ignore[attr-defined]
    "an operation's sources": lambda run: operation(run, "inference").sources.clear(),  # type: ignore[attr-defined]
}


def content(run: Run) -> str:
    """Everything that a scorer can read."""
    spans = [(o.span.attributes, o.span.events, o.span.resource) for o in run.operations]
    operations = [
        (o.input_messages, o.tool_call, o.tool_definitions, o.availability, o.sources) for o in run.operations
    ]
    fields = run.tool_calls, run.documents, run.children, run.resource, run.availability, run.sources
    return repr((spans, operations, fields))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_refused_and_other_rules_judge_the_run_as_it_was(change: Callable[[Run], object]) -> None:
    """The rule that tries it fails, with the fix in the message."""
    read: list[str] = []

    @scorer(inline=True)
    def before(run: Run) -> bool:
        read.append(content(run))
        return True

    @scorer(inline=True)
    def changes(run: Run) -> bool:
        change(run)
        return True

    @scorer(inline=True)
    def after(run: Run) -> bool:
        read.append(content(run))
        return True

    app = App(before, changes, after)

    def more(span: Span) -> None:
        span.add_event("seen", {"n": 1})
        asked = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        with app.tracer.start_as_current_span("chat m", attributes=asked) as chat:
            chat.set_attribute("gen_ai.input.messages", json.dumps(ASKED))
            chat.set_attribute("gen_ai.tool.definitions", DEFINITIONS)
        searched = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.documents": DOCUMENTS}
        with app.tracer.start_as_current_span("retrieval kb", attributes=searched):
            pass

    app.run(result={"items": [{"n": 1}]}, during=more)
    outcomes = {e.rule: e for e in app.settle()}
    assert isinstance(outcomes["after"].outcome, Score)
    assert "copy it first" in repr(outcomes["changes"].outcome), outcomes["changes"]
    assert len(set(read)) == 1


def test_values_of_a_run_are_dicts_and_lists_that_can_be_copied_encoded_and_pickled() -> None:
    """A copy may be changed; a pickled run is read-only again."""
    given: dict[str, Any] = {"a": [1, {"b": [2]}]}
    call = ToolCall(name="t", arguments=given, result=[given])
    run = Run(trace_id="1", root_span_id="2", root_kind="agent", tool_calls=(call,), ground_truth=given)  # type: ignore[arg-type]
    assert call.arguments == given
    assert isinstance(call.arguments, dict)
    assert isinstance(call.result, list)
    assert json.loads(json.dumps(call.result)) == [given]
    for copied in (
        copy.deepcopy(call.arguments),
        copy.copy(call.arguments),
        dict(call.arguments),
        call.arguments.copy(),
    ):
        copied["more"] = 1
    deep = copy.deepcopy(call.result)
    deep[0]["a"][1]["b"].append(3)
    given["a"].append(4)
    assert call.arguments == {"a": [1, {"b": [2]}]}
    again = pickle.loads(pickle.dumps(run))
    assert again == run == copy.deepcopy(run)
    for value in (again.tool_calls[0].arguments, again.ground_truth):
        with pytest.raises(TypeError, match="copy it first"):
            value["more"] = 1


def test_records_that_others_build_are_read_only_too() -> None:
    """A dialect of another package, a data set, a test."""
    held = [
        Document(metadata={"a": 1}).metadata,
        Part(kind="other", data={"a": 1}).data,
        Message(role="user", parts=(Part(kind="other", data=[1]),)).parts[0].data,
        SpanEvent(name="e", attributes={"a": 1}).attributes,
        SpanEvent(name="e", body=[1]).body,
        SpanRecord(trace_id="1", span_id="2", attributes={"a": 1}).attributes,
        SpanRecord(trace_id="1", span_id="2", resource={"a": 1}).resource,
        SpanRecord(trace_id="1", span_id="2").resource,
    ]
    for value in held:
        with pytest.raises(TypeError, match="copy it first"):
            value.clear()
