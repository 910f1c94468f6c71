"""What the store writes of spans and evaluations is what it reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_evals._internal.durable_queue.payload import decode, encode
from otel_evals._internal.durable_queue.stored_evaluations import restored, stored
from otel_evals.model import (
    ContextSeen,
    Direction,
    Dropped,
    Evaluation,
    NotScored,
    Outcome,
    Sampled,
    Score,
    ScorerFailure,
    SpanEvent,
    SpanRecord,
    StepRecord,
    Usage,
)

scalars = st.text() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.binary()
attributes = st.dictionaries(st.text(), scalars | st.lists(scalars).map(tuple))
bodies = st.recursive(
    scalars | st.none(), lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=8
)
events = st.builds(SpanEvent, name=st.text(), time=st.integers(0), attributes=attributes, body=bodies)
spans = st.builds(
    SpanRecord,
    trace_id=st.just("0" * 31 + "1"),
    span_id=st.text(),
    parent_span_id=st.none() | st.text(),
    name=st.text(),
    end_time=st.none() | st.integers(0),
    attributes=attributes,
    events=st.lists(events, max_size=2).map(tuple),
    logs=st.lists(events, max_size=2).map(tuple),
    status=st.sampled_from(["UNSET", "OK", "ERROR"]),
    resource=attributes,
    links=st.lists(st.tuples(st.text(), st.text()), max_size=2).map(tuple),
)


@given(st.lists(spans, max_size=3).map(tuple), st.dictionaries(st.text(), st.none() | st.text()))
def test_spans_come_back_as_they_were(given_spans: tuple[SpanRecord, ...], links: dict[str, Any]) -> None:
    """Whatever attributes and log bodies hold: lone surrogates, huge integers, bytes, nesting."""
    assert decode(encode(given_spans, links)) == (given_spans, links)


def test_what_versions_without_links_wrote_is_read() -> None:
    """All in one line, and rows end before the links."""
    common, row = encode((SpanRecord(trace_id="1", span_id="2", name="a"),), {"2": None}).split(b"\n")
    values = json.loads(row)[: FIELDS.index("links")]
    document = {"links": {"2": None}, "resources": json.loads(common)["resources"], "spans": [values]}
    ((span,), links) = decode(json.dumps(document).encode())
    assert (span.name, span.links, links) == ("a", (), {"2": None})


def altered(field: int, value: Any) -> bytes:
    """A payload in which one value of a span is another."""
    common, row = encode([SpanRecord(trace_id="1", span_id="2", name="a")], {}).split(b"\n")
    values = json.loads(row)
    values[field] = value
    return common + b"\n" + json.dumps(values).encode()


def deep(depth: int) -> bytes:
    """A payload with a log body that is nested so deep."""
    log = [["log", 0, {}, None]]
    return altered(FIELDS.index("logs"), log).replace(
        b"null]]", b'{"a":' * depth + b"1" + b"}" * depth + b"]]", 1
    )


FIELDS = SpanRecord.__struct_fields__
ODD: dict[str, Callable[[], bytes]] = {
    **{repr(text): lambda text=text: text for text in (b"", b"{", b"[]", b"{}", b"\xff", b"null")},  # type: ignore[misc]
    "a row too short": lambda: b'{"spans":[[1]],"resources":[],"links":{}}',
    "a line too few": lambda: altered(0, "1").partition(b"\n")[0],
    "links that are none": lambda: b'{"spans":[],"resources":[],"links":3}',
    "a number for an id": lambda: altered(FIELDS.index("trace_id"), 7),
    "a list for attributes": lambda: altered(FIELDS.index("attributes"), [1]),
    "a text for a time": lambda: altered(FIELDS.index("start_time"), "now"),
    "no status": lambda: altered(FIELDS.index("status"), None),
    "no such resource": lambda: altered(FIELDS.index("resource"), 9),
    "a number for events": lambda: altered(FIELDS.index("events"), 5),
    **{f"{depth} deep": lambda depth=depth: deep(depth) for depth in (990, 5_000, 200_000)},  # type: ignore[misc]
}


@pytest.mark.parametrize("payload", ODD)
def test_what_is_no_payload_is_a_value_error(payload: str) -> None:
    with pytest.raises(ValueError, match=r"not a stored run|Expecting|decode|property name"):
        decode(ODD[payload]())


@pytest.mark.parametrize("depth", [300, 400, 500, 600, 800])
def test_how_deep_a_payload_may_be_depends_on_python_but_nothing_else_is_raised(depth: int) -> None:
    with suppress(ValueError):
        ((span,), _) = decode(deep(depth))
        assert span.logs[0].body


def test_a_value_that_holds_itself_is_a_value_error() -> None:
    body: list[Any] = []
    body.append(body)
    span = SpanRecord(trace_id="1", span_id="2", logs=(SpanEvent(name="log", body=body),))
    with pytest.raises(ValueError, match="Circular"):
        encode([span], {})


STEP = StepRecord(
    name="analyze",
    result={"verdicts": ["yes", "no"]},
    prompt="Judge this.",
    model="m",
    usage=Usage(input_tokens=3, output_tokens=4),
    cost=0.01,
    context=ContextSeen(digest="ab", pieces=1, text=("a fact",)),
)


@pytest.mark.parametrize(
    "outcome",
    [
        Score(value=0.5, label="half", explanation="because", steps=(STEP,)),
        NotScored(reason="no_tool_calls", explanation="none"),
        ScorerFailure(error_type="timeout", message="no score", attempts=2, steps=(STEP,)),
        Dropped(reason="queue_full"),
    ],
)
def test_evaluations_come_back_as_they_were(outcome: Outcome) -> None:
    evaluation = Evaluation(
        evaluation_id="e1",
        scorer_id="s",
        scorer_version="1",
        direction=Direction.LOWER,
        trace_id="t",
        span_id="p",
        outcome=outcome,
        sampled=Sampled(0.1, "ratio(0.1)"),
        revision=3,
        time=17,
    )
    assert restored(stored(evaluation)) == evaluation


def test_what_is_no_evaluation_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="not a stored evaluation"):
        restored({"outcome": {}, "status": "scored"})
