"""What is known of the spans that have not ended."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.trace import set_span_in_context

from otel_evals._internal.capture.items import OpenSpans
from otel_evals._internal.gather.traces import OpenSpansNow

TRACER = TracerProvider(shutdown_on_exit=False).get_tracer("tests.app")


def start(below: Span | None = None) -> Span:
    span = TRACER.start_span("s", context=set_span_in_context(below) if below is not None else None)
    assert isinstance(span, Span)
    return span


SERVER = start()
ROOT = start(SERVER)


@pytest.mark.parametrize(
    ("others", "complete"),
    [
        pytest.param(list, True, id="none"),
        pytest.param(lambda: [start(), None, start()], True, id="other traces and evaluations"),
        pytest.param(lambda: [SERVER], True, id="above"),
        pytest.param(lambda: [SERVER, ROOT], True, id="the span itself, taken before it stopped being open"),
        pytest.param(lambda: [start(ROOT)], False, id="below"),
        pytest.param(lambda: [SERVER, start(SERVER)], False, id="beside"),
        pytest.param(lambda: [start() for _ in range(5_001)], False, id="too many to look at"),
    ],
)
def test_a_run_is_complete_if_at_most_spans_above_it_are_open(
    others: Callable[[], list[Span | None]], complete: bool
) -> None:
    spans = OpenSpans()
    for index, span in enumerate(others()):
        spans.by_id[index if span is None else span.context.span_id] = span
    found = OpenSpansNow(spans).only_above(
        ROOT.context.trace_id, ROOT.context.span_id, SERVER.context.span_id
    )
    assert found is complete
