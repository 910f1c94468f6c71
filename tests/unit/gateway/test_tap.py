"""What tap answers, by the capacity there is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals._internal.config.loader import build_config
from otel_evals._internal.live.providers import Providers
from otel_evals.conventions import load_conventions
from otel_evals_gateway._internal.counters import TrafficCounters
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, decode
from otel_evals_gateway._internal.receiver.selection import Selector
from otel_evals_gateway._internal.scoring_engine import ScoringEngine
from otel_evals_gateway._internal.tap import BUSY, Tap
from tests.support.waits import SECONDS, eventually


@pytest.fixture
def busy() -> Iterator[tuple[Tap, threading.Event]]:
    """A tap whose engine takes nothing until the event is set."""
    scoring, go_on = (
        ScoringEngine(build_config(["answered"], []), load_conventions(), Providers()),
        threading.Event(),
    )
    scoring.engine.thread.call(lambda: go_on.wait(SECONDS))
    traffic = TrafficCounters({})
    try:
        yield Tap(Selector(load_conventions(), 1.0, 1000), scoring, traffic, None), go_on
    finally:
        go_on.set()
        scoring.engine.thread.stop(10.0)


def request(count: int) -> ExportRequest:
    message = ExportTraceServiceRequest()
    scoped = message.resource_spans.add().scope_spans.add()
    for number in range(1, count + 1):
        ids = {"trace_id": b"t" * 16, "span_id": number.to_bytes(8), "parent_span_id": b"p" * 8}
        span = scoped.spans.add(**ids, name="chat m")
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    return decode(ExportRequest("traces", message.SerializeToString()), 10**8)


def test_a_request_is_taken_as_a_whole_or_its_sender_is_asked_to_send_again(
    busy: tuple[Tap, threading.Event],
) -> None:
    tap, go_on = busy
    large, small = request(60_000), request(1)

    async def take() -> None:
        assert (await tap.take(large)).ok  # more than may wait, but nothing else does
        assert await tap.take(small) is BUSY
        assert await tap.take(large) is BUSY

    asyncio.run(take())
    assert tap.traffic.snapshot()["items"]["traces"] == {
        "received": 60_000,
        "rejected": 0,
        "to_judge": 60_000,
    }
    go_on.set()
    eventually(lambda: tap.scoring.engine.intake.taken == 60_000)
    assert asyncio.run(tap.take(small)).ok


def test_what_was_forwarded_already_and_finds_no_capacity_is_counted_as_a_whole(
    busy: tuple[Tap, threading.Event],
) -> None:
    """The runs of these spans are not scored: they would be judged on a part."""
    tap, go_on = busy
    tap.scoring.engine.put_all(tap.select(request(1)).items * 49_999)
    threading.Timer(1.0, go_on.set).start()
    asyncio.run(tap.judge("traces", tap.select(request(2_000)), 0.05))
    assert tap.traffic.snapshot()["items"]["traces"] == {"lost": 2_000}
