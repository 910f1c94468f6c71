"""What is known of the spans that have not ended."""

from __future__ import annotations

from opentelemetry.sdk.trace import Span, TracerProvider
from opentelemetry.trace import set_span_in_context

from otel_evals._internal.capture.open_spans import OpenSpans

TRACER = TracerProvider(shutdown_on_exit=False).get_tracer("tests.app")


def opened(*spans: Span | None) -> OpenSpans:
    made = OpenSpans()
    for index, span in enumerate(spans):
        made.by_id[index if span is None else span.context.span_id] = span
    return made


def start(below: Span | None = None) -> Span:
    span = TRACER.start_span("s", context=set_span_in_context(below) if below is not None else None)
    assert isinstance(span, Span)
    return span


def only_above(spans: OpenSpans, ended: Span) -> bool:
    parent = ended.parent.span_id if ended.parent is not None else 0
    return spans.now(lambda: 0).only_above(ended.context.trace_id, ended.context.span_id, parent)


def test_a_trace_without_open_spans_is_complete() -> None:
    assert only_above(opened(), start())


def test_spans_of_other_traces_and_of_ours_do_not_matter() -> None:
    assert only_above(opened(start(), None, start()), start())


def test_open_spans_above_do_not_matter() -> None:
    server = start()
    route = start(server)
    assert only_above(opened(server, route), start(route))


def test_a_span_may_be_taken_before_it_has_stopped_being_open() -> None:
    server = start()
    root = start(server)
    assert only_above(opened(server, root), root)
    assert not only_above(opened(server, root, start(root)), root)


def test_an_open_span_below_matters() -> None:
    root = start()
    assert not only_above(opened(start(root)), root)


def test_an_open_span_beside_matters() -> None:
    server = start()
    assert not only_above(opened(server, start(server)), start(server))


def test_too_many_open_spans_are_not_looked_at() -> None:
    many = OpenSpans()
    span = start()
    many.by_id.update(dict.fromkeys(range(5_001), span))
    assert not only_above(many, start())


def test_how_many_items_wait_is_asked_after_the_spans_were_copied() -> None:
    spans = opened(root := start())

    def waiting() -> int:
        spans.by_id.clear()
        return 7

    now = spans.now(waiting)
    assert now.waiting == 7
    assert not now.only_above(root.context.trace_id, 1, 0)
