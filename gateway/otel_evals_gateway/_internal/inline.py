"""Inline: forwards everything to the next endpoint, judged spans with their scores.

With a store, the other spans are forwarded first, byte for byte; then the held spans are written to the
journal, the sender is answered, and they follow once their scores are complete or their time is over. Without
a store a crash would lose held spans, so a request with judged spans waits as a whole, is forwarded once, and
the sender gets the next endpoint's answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_evals.sdk.otlp import Place, attribute_bytes, envelope, opened, parts_of, without
from otel_evals.sdk.pipeline import RecordedSpan
from otel_evals_gateway._internal.forwarder import Forwarder
from otel_evals_gateway._internal.held_spans import HeldSpan, HeldSpans
from otel_evals_gateway._internal.journal import HeldPart, Journal
from otel_evals_gateway._internal.outbox import Outbox
from otel_evals_gateway._internal.receiver.answers import ExportAnswer
from otel_evals_gateway._internal.receiver.decoder import ExportRequest
from otel_evals_gateway._internal.receiver.selection import Selection
from otel_evals_gateway._internal.tap import Tap
from otel_evals_gateway._internal.traffic_counters import TrafficCounters


class Inline:
    """Takes requests and forwards them.

    Args:
        tap: selects and judges.
        forwarder: to the next endpoint.
        held_spans: None if scores are not put on spans.
        traffic: counts.
        journal: keeps held spans over a crash.
        nested: judge spans below other claimed spans, too.
    """

    def __init__(
        self,
        tap: Tap,
        forwarder: Forwarder,
        held_spans: HeldSpans | None,
        traffic: TrafficCounters,
        journal: Journal,
        *,
        nested: bool,
    ) -> None:
        self._tap = tap
        self._forwarder = forwarder
        self._held_spans = held_spans
        self.nested = nested
        self._traffic = traffic
        self._journal = journal
        self._outbox = Outbox(forwarder, journal, traffic)

    async def take(self, request: ExportRequest) -> ExportAnswer:
        """Take a decoded request; return the answer to its sender."""
        if request.signal == "metrics":
            return await self._forward_unchanged(request)
        selection = await self._tap.look_through(request)
        places = self._places(selection) if request.signal == "traces" else {}
        if not places:
            answer = await self._forward_unchanged(request)
            if answer.ok and selection.items:
                self._journal.append(request, selection)
                await self._tap.judge(request.signal, selection)
        else:
            way = self._split if self._journal.keeps else self._whole
            try:
                answer = await way(request, selection, places)
            except ValueError:  # valid protobuf that is not valid OTLP
                answer = await self._forward_unchanged(request)
        self._traffic.received(request.signal, selection)
        if not answer.ok:
            self._traffic.count(request.signal, "refused", selection.seen)
        else:  # the outbox counts the held spans
            later = len(places) if self._journal.keeps else 0
            self._traffic.count(request.signal, "forwarded", selection.seen - later)
        return answer

    def start(self) -> None:
        if self._held_spans is not None:
            self._held_spans.start()
        self._outbox.start()

    async def stop(self, seconds: float) -> None:
        """Release and send the held spans; unsent ones stay in the journal."""
        if self._held_spans is not None:
            await self._held_spans.stop()
        await self._outbox.stop(seconds)
        await self._forwarder.close()

    def restore(self, held: Iterable[HeldPart]) -> None:
        """Hold the spans that an earlier process held."""
        for part in held:
            self._hold_part(part)

    # --- with judged spans ---

    def _places(self, selection: Selection) -> Mapping[Place, RecordedSpan]:
        """Return the spans to hold, by position."""
        if self._held_spans is None or not selection.claimed:
            return {}
        places = selection.judged(nested=self.nested)
        return places if self._held_spans.room_for(len(places)) else {}

    async def _split(
        self, request: ExportRequest, selection: Selection, places: Mapping[Place, RecordedSpan]
    ) -> ExportAnswer:
        """Forward the other spans, and keep the held ones until they are scored."""
        answer = ExportAnswer()
        if len(places) < selection.seen:
            answer = await self._forwarder.send("traces", without(request.plain, places.keys()))
            if not answer.ok:
                return answer
        parts = [
            HeldPart(bytes.fromhex(places[place].span.trace_id + places[place].span.span_id), data)
            for place, data in parts_of(request.plain, places.keys())
        ]
        if not self._journal.append(request, selection, parts):
            sent = await self._forwarder.send("traces", b"".join(part.data for part in parts))
            if not sent.ok:
                return sent
            self._traffic.count("traces", "forwarded", len(parts))
        else:
            for part in parts:
                self._hold_part(part)
        await self._tap.judge("traces", selection)
        return answer

    async def _whole(
        self, request: ExportRequest, selection: Selection, places: Mapping[Place, RecordedSpan]
    ) -> ExportAnswer:
        """Wait for the scores, and forward the request once."""
        assert self._held_spans is not None
        all_released = asyncio.Event()
        spans: dict[Place, HeldSpan] = {}
        waiting = len(places)

        def released(_: HeldSpan) -> None:
            nonlocal waiting
            waiting -= 1
            if not waiting:
                all_released.set()

        for place, item in places.items():
            key = int(item.span.trace_id, 16), int(item.span.span_id, 16)
            spans[place] = self._held_spans.hold(key, released)
        await self._tap.judge("traces", selection)
        await all_released.wait()
        scored = {place: span.attributes for place, span in spans.items() if span.attributes}
        if scored:
            parts = parts_of(request.plain, scored.keys())
            at_the_end = b"".join(with_attributes(part, scored[place]) for place, part in parts)
            body = without(request.plain, scored.keys()) + at_the_end
            answer = await self._forwarder.send("traces", body)
        else:
            answer = await self._forward_unchanged(request)
        if not answer.ok:
            for span in spans.values():
                self._held_spans.keep_scores(span)
        return answer

    def _hold_part(self, part: HeldPart) -> None:
        def released(span: HeldSpan) -> None:
            self._outbox.put(HeldPart(part.key, with_attributes(part.data, span.attributes)))

        if self._held_spans is None:
            self._outbox.put(part)
        else:
            key = int.from_bytes(part.key[:16]), int.from_bytes(part.key[16:])
            self._held_spans.hold(key, released)

    async def _forward_unchanged(self, request: ExportRequest) -> ExportAnswer:
        return await self._forwarder.send(
            request.signal, request.body, request.content_type, request.encoding
        )


def with_attributes(part: bytes, attributes: Mapping[str, Any]) -> bytes:
    """Add attributes to a request of one span, byte for byte; existing keys keep their values."""
    if not attributes:
        return part
    around, beside, span = opened(part)
    known = {attribute.key for attribute in Span.FromString(span).attributes}
    for key, value in attributes.items():
        if key not in known:
            added = KeyValue(key=key)
            if isinstance(value, float):
                added.value.double_value = value
            else:
                added.value.string_value = str(value)
            span += attribute_bytes(added.SerializeToString())
    return envelope(around, beside, span)
