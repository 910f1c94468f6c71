"""Which runs are complete, told from one process to another."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, Span, TracerProvider

from otel_evals._internal.capture.items import CapturedLog, CapturedSpan
from otel_evals._internal.capture.open_spans import OpenSpans
from otel_evals._internal.live.engine_process.complete_roots import (
    CompleteRoots,
    ToldOpenSpans,
    complete_roots,
)
from otel_evals.model import SpanEvent

TRACER = TracerProvider(shutdown_on_exit=False).get_tracer("app")


@pytest.fixture
def server() -> Iterator[Span]:
    span = TRACER.start_span("POST /chat")
    assert isinstance(span, Span)
    yield span
    span.end()


def below(span: Span) -> Span:
    made = TRACER.start_span("agent", context=trace.set_span_in_context(span))
    assert isinstance(made, Span)
    return made


def number(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def test_a_root_is_complete_when_only_what_is_above_it_is_open(server: Span) -> None:
    root, beside = below(server), below(server)
    root.end()
    opened = OpenSpans()
    opened.by_id = {number(server): server}
    log = CapturedLog(1, 2, SpanEvent(name="e"))
    batch = [log, CapturedSpan(below(root), number(root)), CapturedSpan(root, 0)]
    assert complete_roots(batch, opened.now(lambda: 7)) == CompleteRoots((number(root),), 7)
    opened.by_id[number(beside)] = beside
    assert complete_roots(batch, opened.now(lambda: 7)) == CompleteRoots((), 7)


def test_what_was_told_is_asked_for_once_and_counts_from_what_had_arrived() -> None:
    told = ToldOpenSpans()
    told.tell(CompleteRoots((5, 6), 3), received=100)
    assert told.complete_after(1, 5, 0, added=90) == 103
    assert told.complete_after(1, 5, 0, added=90) is None
    assert told.complete_after(1, 9, 0, added=90) is None


def test_what_is_never_asked_for_is_forgotten() -> None:
    told = ToldOpenSpans()
    for start in range(0, 30_000, 1_000):
        told.tell(CompleteRoots(tuple(range(start, start + 1_000)), 1), received=0)
    assert told.complete_after(1, 5, 0, added=0) is None
    assert told.complete_after(1, 29_999, 0, added=0) == 1
