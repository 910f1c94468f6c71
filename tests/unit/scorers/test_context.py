"""The ready-made resolvers."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from otel_evals._internal.scorers.kit.context import seen
from otel_evals._internal.util.plain import MAX_JSON
from otel_evals.context import (
    Context,
    Params,
    Resolver,
    Results,
    attribute,
    combine,
    conversation,
    documents,
    resolve,
    static,
    tool_results,
)
from otel_evals.model import Availability, Document, Operation, OperationKind, Run, SpanRecord
from tests.support.runs import a_run, tool

CALLS = (
    tool("orders", {"id": 7, "ships": "Friday"}, arguments={"id": 7}),
    tool("stock", error="out of reach", arguments={"sku": "x"}),
    tool("orders", "none left"),
    tool("notes"),
)


def find(resolver: Resolver, run: Run) -> Context:
    async def main() -> Context:
        params: Params[Any, Any] = Params(run=run, results=Results(None, None), step="analyze")
        return await resolve(resolver, params)

    return anyio.run(main)


def test_tool_results_are_one_piece_per_call() -> None:
    assert find(tool_results(), a_run(tools=CALLS)).pieces == (
        'orders({"id": 7}) returned:\n{"id": 7, "ships": "Friday"}',
        'stock({"sku": "x"}) failed: out of reach',
        "orders() returned:\nnone left",
    )


def test_tool_results_by_name() -> None:
    run = a_run(tools=CALLS)
    assert len(find(tool_results("orders"), run).pieces) == 2
    assert len(find(tool_results(["stock"]), run).pieces) == 1


def test_what_is_too_long_to_record_is_marked_as_left_out() -> None:
    found = seen(Context(("x" * MAX_JSON, "y" * 100, "z"), truncated=True))
    assert found.truncated
    assert (found.pieces, len(found.text)) == (3, 2)
    assert found.text[1] == "[100 characters left out, and 1 more pieces]"


def test_an_empty_context_says_why() -> None:
    off = a_run(tools=[tool("a")], availability={"tool_results": Availability.CAPTURED_OFF})
    assert "left out; content capture: " in (find(tool_results(), off).note or "")
    assert find(tool_results(), a_run()).note == "no tool call matches"
    assert find(documents(), a_run()).note is not None
    assert find(conversation(), a_run()).note is not None


def test_documents_come_with_their_content() -> None:
    run = a_run(documents=(Document(content="one"), Document(id="2"), Document(content="three")))
    assert find(documents(), run).pieces == ("one", "three")
    assert find(documents(top=1), run).pieces == ("one",)


def test_a_conversation_is_what_was_said_before() -> None:
    run = a_run(history=[("system", "rules"), ("user", "hi"), ("assistant", "hello"), ("user", "so")])
    assert find(conversation(last=2), run).pieces == ("assistant: hello", "user: so")
    assert find(conversation(last=0), run).pieces == ()


@pytest.mark.parametrize(
    ("value", "pieces"),
    [
        ("text", ("text",)),
        ('["a", {"b": 1}]', ("a", '{"b": 1}')),
        (("x", "y"), ("x", "y")),
        ("[not json", ("[not json",)),
        ("[" * 985 + "]" * 985, ("[" * 985 + "]" * 985,)),
        (3, ("3",)),
        ("", ()),
    ],
)
def test_an_attribute_may_hold_one_text_or_a_list(value: Any, pieces: tuple[str, ...]) -> None:
    span = SpanRecord(trace_id="1" * 32, span_id="3" * 16, attributes={"app.context": value})
    run = a_run(operations=(Operation(span=span, kind=OperationKind.OTHER, convention="x"),))
    assert find(attribute("app.context"), run).pieces == pieces


def test_resolvers_combine_sync_and_async_ones() -> None:
    async def later(params: Params[Any, Any]) -> list[str]:
        return ["later"]

    found = find(combine(static("first"), later, lambda params: "last"), a_run())
    assert found.pieces == ("first", "later", "last")


def test_the_digest_tells_contexts_apart() -> None:
    digests = {seen(Context(pieces)).digest for pieces in [(), ("ab",), ("a", "b"), ("", "ab"), ("ab", "")]}
    assert len(digests) == 5


def test_resolvers_compare_by_value() -> None:
    assert tool_results(["a"]) == tool_results({"a"}) != tool_results(["b"])
