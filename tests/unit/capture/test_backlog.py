"""What may wait before it is read."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from otel_evals._internal.capture.backlog import UNMEASURED, Backlog, size_of_captured
from otel_evals._internal.capture.items import CapturedLog, CapturedSpan, RecordedSpan
from otel_evals.model import SpanEvent, SpanRecord

TRACER = TracerProvider(shutdown_on_exit=False).get_tracer("app")
LARGE = "x" * 10_000


def captured(**attributes: Any) -> CapturedSpan:
    span = TRACER.start_span("s", attributes=attributes)
    span.add_event("e", {"said": attributes.get("x", "")})
    span.end()
    return CapturedSpan(span, 0)


def logged(number: int) -> CapturedLog:
    return CapturedLog(number, 2, SpanEvent(name="e"))


def test_more_than_the_capacity_are_refused_and_their_traces_remembered() -> None:
    backlog = Backlog(3, 10**6)
    assert backlog.free == 3
    assert [backlog.admits(logged(n), waiting=n) for n in range(5)] == [True, True, True, False, False]
    assert (backlog.refused, list(backlog.traces)) == (2, [3, 4])


def test_bytes_count_once_much_waits() -> None:
    backlog = Backlog(50_000, 50_000)
    assert backlog.free == UNMEASURED
    admitted = [backlog.admits(captured(x=LARGE), UNMEASURED + n) for n in range(5)]
    assert admitted == [True, True, False, False, False]
    backlog.taken(UNMEASURED + 2, 1)
    assert backlog.admits(captured(x=LARGE), 1)
    backlog.taken(2, 0)
    assert backlog.bytes == 0


def test_there_is_no_room_for_requests_once_the_bytes_are_there() -> None:
    backlog = Backlog(50_000, 50_000)
    backlog.add([captured(x=LARGE)] * 10, waiting=0)
    assert backlog.left(10) == 49_990  # it is not measured while little waits
    backlog.add([captured(x=LARGE)] * 10, waiting=UNMEASURED)
    assert backlog.left(UNMEASURED + 10) == 0
    backlog.taken(UNMEASURED + 10, 0)
    assert backlog.left(0) == 50_000


def test_nothing_is_taken_once_it_is_closed() -> None:
    backlog = Backlog(10, 10**6)
    backlog.close()
    assert (backlog.free, backlog.admits(logged(1), 0), backlog.refused) == (0, False, 1)


@pytest.mark.parametrize(
    "item",
    [
        captured(x=LARGE),
        RecordedSpan(SpanRecord(trace_id="1" * 32, span_id="2" * 16, attributes={"x": LARGE}), 0),
        CapturedLog(1, 2, SpanEvent(name="e", body=LARGE)),
    ],
)
def test_every_kind_of_item_is_measured(item: Any) -> None:
    assert size_of_captured(item) > len(LARGE)
    assert size_of_captured(object()) == 0
