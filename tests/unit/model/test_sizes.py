"""Sizes of what is held."""

from __future__ import annotations

from typing import Any

import pytest

from otel_evals._internal.model.runs import size_of_run
from otel_evals._internal.model.spans import size_of_event, size_of_span, size_of_value
from otel_evals.model import SpanEvent, SpanRecord
from tests.support.runs import a_run

LARGE = "x" * 100_000
NESTED: list[Any] = [LARGE]
NESTED.append(NESTED)


def span(**given: Any) -> SpanRecord:
    return SpanRecord(trace_id="1" * 32, span_id="2" * 16, **given)


@pytest.mark.parametrize(
    "given",
    [
        {"name": LARGE},
        {"status_message": LARGE},
        {"trace_state": LARGE},
        {"attributes": {"k": LARGE}},
        {"attributes": {LARGE: 1}},
        {"attributes": {"k": (LARGE, LARGE)}},
        {"attributes": {"k": tuple(map(str, range(20_000)))}},
        {"attributes": {"k": b"x" * 100_000}},
        {"attributes": {"k": 1 << 800_000}},
        {"events": (SpanEvent(name=LARGE),)},
        {"events": (SpanEvent(name="e", attributes={"k": LARGE}),)},
        {"logs": (SpanEvent(name="e", body={"deep": [{"in": LARGE}]}),)},
        {"logs": (SpanEvent(name="e", body=NESTED),)},
        {"links": tuple(("1" * 32, "2" * 16) for _ in range(1_000))},
    ],
)
def test_whatever_takes_memory_counts(given: dict[str, Any]) -> None:
    assert 90_000 < size_of_span(span(**given)) < 3_000_000
    assert size_of_span(span()) < 1_000


def test_text_counts_as_what_it_takes() -> None:
    assert size_of_value("\N{SNOWMAN}" * 1_000) > 2 * size_of_value("x" * 1_000) * 0.9


def test_values_of_no_known_kind_are_not_looked_into() -> None:
    class Odd:
        def __len__(self) -> int:
            raise RuntimeError("no")

        def __sizeof__(self) -> int:
            raise RuntimeError("no")

    assert 0 < size_of_value([Odd(), None, 1.5, True]) < 1_000
    assert size_of_event(SpanEvent(name="e", body=Odd())) < 1_000


def test_a_run_takes_what_its_spans_take() -> None:
    run = a_run()
    assert size_of_run(run) == sum(size_of_span(o.span) for o in run.operations) == size_of_run(run)
