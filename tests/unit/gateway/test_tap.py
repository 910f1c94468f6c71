"""What tap answers, by the room there is."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from otel_evals_gateway._internal.trace_gatherer import LostItems, RootsTaken

from otel_evals._internal.config.loader import build_config
from otel_evals._internal.live.providers import Providers
from otel_evals.dialects import load_dialects
from otel_evals_gateway import GatewayOptions
from otel_evals_gateway._internal import tap as tap_module
from otel_evals_gateway._internal.journal import Journal
from otel_evals_gateway._internal.receiver.decoder import ExportRequest, decode
from otel_evals_gateway._internal.receiver.request_limits import RequestLimits
from otel_evals_gateway._internal.receiver.selection import Selector
from otel_evals_gateway._internal.scoring_engine import ScoringEngine
from otel_evals_gateway._internal.tap import BUSY, Tap
from otel_evals_gateway._internal.traffic_counters import TrafficCounters
from tests.support.waits import eventually


class Taken:
    """Takes the place of the steps' work, and waits while it is told to."""

    def __init__(self) -> None:
        self.count = 0
        self.lost: list[LostItems] = []
        self.go_on = threading.Event()

    def take(self, items: Sequence[Any]) -> None:
        self.go_on.wait()
        self.lost += [item for item in items if isinstance(item, LostItems)]
        self.count += sum(not isinstance(item, (LostItems, RootsTaken)) for item in items)

    def tick(self) -> float:
        return time.monotonic() + 1.0

    async def run(self) -> None:
        """Nothing is delivered."""

    def end(self, items: Sequence[Any]) -> None:
        """Nothing is counted."""


@pytest.fixture
def busy() -> Iterator[tuple[Tap, ScoringEngine, TrafficCounters, Taken]]:
    """A tap whose steps take nothing yet."""
    scoring = ScoringEngine(build_config(["answered"], []), load_dialects(), Providers())
    work = scoring.engine.thread.work = Taken()
    traffic = TrafficCounters(RequestLimits(GatewayOptions()))
    selector = Selector(load_dialects(), 1.0, 1000)
    try:
        yield Tap(selector, scoring, traffic, Journal()), scoring, traffic, work
    finally:
        work.go_on.set()
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
    busy: tuple[Tap, ScoringEngine, TrafficCounters, Taken],
) -> None:
    tap, scoring, traffic, work = busy
    large, small = request(60_000), request(1)

    async def take() -> None:
        assert (await tap.take(large)).ok  # more than may wait, but the steps have nothing else
        assert await tap.take(small) is BUSY
        assert await tap.take(large) is BUSY

    asyncio.run(take())
    assert traffic.snapshot()["items"]["traces"] == {"received": 60_000, "rejected": 0, "to_judge": 60_000}
    work.go_on.set()
    eventually(lambda: work.count == 60_000)
    assert (work.count, scoring.engine.thread.backlog.refused) == (60_000, 0)
    assert asyncio.run(tap.take(small)).ok


def test_what_was_passed_on_already_and_finds_no_room_is_counted_as_a_whole(
    busy: tuple[Tap, ScoringEngine, TrafficCounters, Taken], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tap_module, "_PUT_SECONDS", 0.05)
    tap, scoring, traffic, work = busy
    scoring.engine.thread.put_all(tap.select(request(1)).items * 49_999)
    selection = tap.select(request(2_000))
    asyncio.run(tap.judge("traces", selection))
    assert traffic.snapshot()["items"]["traces"] == {"lost": 2_000}
    assert scoring.putting == 0
    work.go_on.set()
    eventually(lambda: work.lost)
    assert work.lost[0].items is selection.items, "their runs are not scored without them"
