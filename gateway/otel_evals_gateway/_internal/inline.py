"""Inline: everything received goes on to the next endpoint, judged spans with their scores.

With a store, what is not held is forwarded first, as the bytes that came; then the held spans are written to
the journal, the sender is answered, and they follow when their scores are complete or their time is over.
Without one nothing keeps a held span over a crash, so a request with judged spans waits as a whole, is
forwarded once, and the sender gets the next endpoint's answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from otel_evals.sdk.otlp import Place, parts_of, without
from otel_evals.sdk.pipeline import RecordedSpan
from otel_evals_gateway._internal.forwarder import Forwarder
from otel_evals_gateway._internal.held_spans import HeldSpan, HeldSpans
from otel_evals_gateway._internal.journal import HeldPart, Journal
from otel_evals_gateway._internal.outbox import Outbox
from otel_evals_gateway._internal.receiver.answers import ExportAnswer
from otel_evals_gateway._internal.receiver.decoder import ExportRequest
from otel_evals_gateway._internal.receiver.selection import Selection
from otel_evals_gateway._internal.request_parts import with_attributes
from otel_evals_gateway._internal.tap import Tap
from otel_evals_gateway._internal.traffic_counters import Traffic

__all__ = ["Inline"]


class Inline:
    """Takes requests and forwards them.

    Args:
        tap: selects and judges.
        forwarder: to the next endpoint.
        held: spans that wait; None if scores are not put on spans.
        nested: whether spans below other claimed spans may be judged.
        traffic: counts.
        journal: keeps held spans over a crash.
    """

    def __init__(
        self,
        tap: Tap,
        forwarder: Forwarder,
        held: HeldSpans | None,
        traffic: Traffic,
        journal: Journal,
        *,
        nested: bool,
    ) -> None:
        self._tap = tap
        self._forwarder = forwarder
        self._held = held
        self._nested = nested
        self._traffic = traffic
        self._journal = journal
        self._outbox = Outbox(forwarder, journal, traffic)

    def use_rules(self, *, nested: bool) -> None:
        """Whether spans below other claimed spans may be judged from now on."""
        self._nested = nested

    async def take(self, request: ExportRequest) -> ExportAnswer:
        """Take a decoded request; returns what its sender is told."""
        if request.signal == "metrics":
            return await self._as_it_came(request)
        selection = await self._tap.look_through(request)
        places = self._places(selection) if request.signal == "traces" else {}
        if not places:
            answer = await self._as_it_came(request)
            if answer.ok and selection.items:
                self._journal.append(request, selection)
                await self._tap.judge(request.signal, selection)
        else:
            answer = await self._with_scores(request, selection, places)
        self._count(request.signal, selection, answer, len(places) if self._journal.keeps else 0)
        return answer

    def start(self) -> None:
        """Begin to send what was held."""
        if self._held is not None:
            self._held.start()
        self._outbox.start()

    async def stop(self, seconds: float) -> None:
        """Let everything pass, and send it; what cannot be sent in time stays in the journal."""
        if self._held is not None:
            await self._held.stop()
        await self._outbox.stop(seconds)
        await self._forwarder.close()

    # --- what earlier processes left: `otel_evals_gateway._internal.journal.Replayed` ---

    def select(self, request: ExportRequest) -> Selection:
        """What of a request may be judged."""
        return self._tap.select(request)

    async def judge(self, signal: str, selection: Selection) -> None:
        """Give the stages what may be judged."""
        await self._tap.judge(signal, selection)

    def restore(self, held: Iterable[HeldPart]) -> None:
        """Go on to hold spans until they are forwarded."""
        for part in held:
            self._hold_part(part)

    # --- with judged spans ---

    def _places(self, selection: Selection) -> Mapping[Place, RecordedSpan]:
        """Where the spans stand that are to be held."""
        if self._held is None or not selection.claimed:
            return {}
        places = selection.judged(nested=self._nested)
        return places if self._held.room_for(len(places)) else {}

    async def _with_scores(
        self, request: ExportRequest, selection: Selection, places: Mapping[Place, RecordedSpan]
    ) -> ExportAnswer:
        way = self._split if self._journal.keeps else self._whole
        try:
            return await way(request, selection, places)
        except ValueError:  # valid protobuf of a kind that OTLP does not have
            return await self._as_it_came(request)

    async def _split(
        self, request: ExportRequest, selection: Selection, places: Mapping[Place, RecordedSpan]
    ) -> ExportAnswer:
        """Forward what is not held, then keep the rest until its scores are there."""
        if len(places) < selection.seen:
            rest = without(request.plain, places.keys())
            answer = await self._forwarder.send("traces", rest)
            if not answer.ok:
                return answer
        else:
            answer = ExportAnswer()
        parts = [
            HeldPart(_key_bytes(places[place]), data)
            for place, data in parts_of(request.plain, places.keys())
        ]
        if not self._journal.append(request, selection, parts):
            sent = await self._forwarder.send("traces", b"".join(part.data for part in parts))
            if not sent.ok:
                return sent
            self._traffic.forwarded("traces", len(parts))
        else:
            for part in parts:
                self._hold_part(part)
        await self._tap.judge("traces", selection)
        return answer

    async def _whole(
        self, request: ExportRequest, selection: Selection, places: Mapping[Place, RecordedSpan]
    ) -> ExportAnswer:
        """Wait for the scores, and forward the request once."""
        assert self._held is not None
        awaited = asyncio.Event()
        spans: dict[Place, HeldSpan] = {}
        left = set(places)

        def passed(place: Place) -> None:
            left.discard(place)
            if not left:
                awaited.set()

        for place, item in places.items():
            spans[place] = self._held.hold(_key(item), lambda _, place=place: passed(place))  # type: ignore[misc]
        await self._tap.judge("traces", selection)
        await awaited.wait()
        scored = {place: span.attributes for place, span in spans.items() if span.attributes}
        if scored:
            answer = await self._forwarder.send("traces", _rewritten(request.plain, scored))
        else:
            answer = await self._as_it_came(request)
        if not answer.ok:
            for span in spans.values():
                self._held.keep_scores(span)
        return answer

    def _hold_part(self, part: HeldPart) -> None:
        def passed(span: HeldSpan) -> None:
            self._outbox.put(HeldPart(part.key, with_attributes(part.data, span.attributes)))

        if self._held is None:
            self._outbox.put(part)
        else:
            key = int.from_bytes(part.key[:16]), int.from_bytes(part.key[16:])
            self._held.hold(key, passed)

    async def _as_it_came(self, request: ExportRequest) -> ExportAnswer:
        return await self._forwarder.send(
            request.signal, request.body, request.content_type, request.encoding
        )

    def _count(self, signal: str, selection: Selection, answer: ExportAnswer, later: int) -> None:
        self._traffic.received(signal, selection)
        if not answer.ok:
            self._traffic.refused(signal, selection.seen)
        else:
            self._traffic.forwarded(signal, selection.seen - later)  # the outbox counts those that follow


def _key(item: RecordedSpan) -> tuple[int, int]:
    return int(item.span.trace_id, 16), int(item.span.span_id, 16)


def _key_bytes(item: RecordedSpan) -> bytes:
    return bytes.fromhex(item.span.trace_id + item.span.span_id)


def _rewritten(data: bytes, scored: Mapping[Place, Mapping[str, Any]]) -> bytes:
    """A request whose judged spans have their scores; they stand at its end."""
    parts = [with_attributes(part, scored[place]) for place, part in parts_of(data, scored.keys())]
    return without(data, scored.keys()) + b"".join(parts)
