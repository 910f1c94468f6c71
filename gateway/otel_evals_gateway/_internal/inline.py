"""Inline: forwards everything to the next endpoint, judged spans with their scores.

With a journal, the other spans are forwarded first, unchanged; then the held spans are written to the
journal, the sender is answered, and they follow once their scores are complete or their time is over.
Without a journal a crash would lose held spans, so a request with judged spans waits as a whole, is forwarded
once, and the sender gets the next endpoint's answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_evals.sdk.pipeline import RecordedSpan
from otel_evals.sdk.util import backoff
from otel_evals_gateway._internal.counters import TrafficCounters
from otel_evals_gateway._internal.forwarder import Forwarder
from otel_evals_gateway._internal.held_spans import HeldSpans
from otel_evals_gateway._internal.journal import HeldPart, ReceivedJournal
from otel_evals_gateway._internal.receiver.answers import PROTOBUF, ExportAnswer
from otel_evals_gateway._internal.receiver.decoder import ExportRequest
from otel_evals_gateway._internal.receiver.selection import Place, Selection
from otel_evals_gateway._internal.tap import Tap

_logger = logging.getLogger(__name__)
_BATCH = 128
_GATHER_SECONDS = 0.01
_FIRST, _LONGEST = 0.5, 10.0
_OURS = "otel_evals."


class Inline:
    """Takes requests and forwards them; `nested` judges spans below other claimed spans, too."""

    def __init__(self, tap: Tap, forwarder: Forwarder, held_spans: HeldSpans | None, *, nested: bool) -> None:
        self._tap = tap
        self.forwarder = forwarder
        self._held_spans = held_spans
        self.nested = nested
        self._traffic = tap.traffic
        self._journal = tap.journal
        self._outbox = _Outbox(forwarder, tap.journal, tap.traffic)

    async def take(self, request: ExportRequest) -> ExportAnswer:
        """Take a decoded request; return the answer to its sender."""
        if request.signal == "metrics":
            return await self._forward_unchanged(request)
        selection = await self._tap.look_through(request)
        # Before the spans are split: what is forwarded must not contain them either.
        _drop_our_names(request, selection)
        places = self._places(request, selection)
        if not places:
            answer = await self._unheld(request, selection)
        elif self._journal is None:
            answer = await self._whole(request, selection, places)
        else:
            answer = await self._split(self._journal, request, selection, places)
        # Refused items come again, and are counted then.
        self._traffic.received(request.signal, selection if answer.ok else Selection(seen=selection.seen))
        refused = answer.rejected if answer.ok else selection.seen
        # The outbox counts the held spans.
        later = len(places) if answer.ok and self._journal is not None else 0
        self._traffic.forwarded(request.signal, selection.seen - later, refused, "refused")
        return answer

    async def _unheld(self, request: ExportRequest, selection: Selection) -> ExportAnswer:
        """Forward a request without spans to hold, and judge a copy."""
        answer = await self._forward_unchanged(request)
        # Refused items come again with the sender's next attempt, and are judged then.
        if answer.ok and selection.items:
            if self._journal is not None:
                self._journal.append(request, selection)
            await self._tap.judge(request.signal, selection)
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
        await self.forwarder.close()

    # --- with judged spans ---

    def _places(self, request: ExportRequest, selection: Selection) -> Mapping[Place, RecordedSpan]:
        """Return the spans to hold, by position."""
        if self._held_spans is None or not selection.claimed:
            return {}
        # They leave in one request: if the second of two failed, the sender would repeat the first as well.
        if self._journal is not None and self._journal.failed:
            return {}
        places = selection.judged(nested=self.nested)
        if self._journal is None:
            # The sender waits: a span whose parent comes in a later request would wait for it in vain.
            opens_run = self._tap.scoring.opens_run
            places = {p: i for p, i in places.items() if opens_run(i.span) or selection.is_top(i.span)}
        # Unsent spans count, too: without an answer from the next endpoint, they would grow without bound.
        count = len(places) + self._outbox.unsent
        return places if self._held_spans.has_capacity(count, len(request.plain)) else {}

    async def _split(
        self,
        journal: ReceivedJournal,
        request: ExportRequest,
        selection: Selection,
        places: Mapping[Place, RecordedSpan],
    ) -> ExportAnswer:
        """Forward the other spans, and keep the held ones until they are scored."""
        answer = ExportAnswer()
        if len(places) < selection.seen:
            answer = await self.forwarder.send("traces", without(request.plain, places.keys()))
            if not answer.ok:
                return answer
        parts = [
            HeldPart(bytes.fromhex(places[place].span.trace_id + places[place].span.span_id), data)
            for place, data in parts_of(request.plain, places.keys())
        ]
        if journal.append(request, selection, parts):
            for part in parts:
                self.hold(part)
        else:
            sent = await self.forwarder.send("traces", b"".join(part.data for part in parts))
            if not sent.ok:
                return sent
            self._traffic.count("traces", "forwarded", len(parts))
        await self._tap.judge("traces", selection)
        return answer

    async def _whole(
        self, request: ExportRequest, selection: Selection, places: Mapping[Place, RecordedSpan]
    ) -> ExportAnswer:
        """Wait for the scores, and forward the request once."""
        assert self._held_spans is not None
        loop, size = asyncio.get_running_loop(), len(request.plain) // len(places)
        keys = {p: (int(item.span.trace_id, 16), int(item.span.span_id, 16)) for p, item in places.items()}
        waiting: dict[Place, asyncio.Future[Mapping[str, Any]]] = {p: loop.create_future() for p in places}
        for place, future in waiting.items():
            self._held_spans.hold(keys[place], size, future.set_result)
        await self._tap.judge("traces", selection)
        request.message = None  # it may be large
        request.reserve(len(request.plain) + len(request.body))
        await asyncio.wait(waiting.values())
        released = {place: future.result() for place, future in waiting.items()}
        scored = {place: attributes for place, attributes in released.items() if attributes}
        if scored:
            parts = parts_of(request.plain, scored.keys())
            at_the_end = b"".join(with_attributes(part, scored[place]) for place, part in parts)
            body = without(request.plain, scored.keys()) + at_the_end
            answer = await self.forwarder.send("traces", body)
        else:
            answer = await self._forward_unchanged(request)
        if not answer.ok:
            for place, attributes in released.items():
                self._held_spans.keep_scores(keys[place], attributes)
        return answer

    def hold(self, part: HeldPart) -> None:
        """Hold a span until it is scored, and then forward it."""

        def released(attributes: Mapping[str, Any]) -> None:
            self._outbox.put(HeldPart(part.key, with_attributes(part.data, attributes)))

        if self._held_spans is None:
            self._outbox.put(part)
        else:
            key = int.from_bytes(part.key[:16]), int.from_bytes(part.key[16:])
            self._held_spans.hold(key, len(part.data), released)

    async def _forward_unchanged(self, request: ExportRequest) -> ExportAnswer:
        return await self.forwarder.send(request.signal, request.body, request.content_type, request.encoding)


class _Outbox:
    """Sends released spans to the next endpoint in batches, until they are accepted."""

    def __init__(
        self, forwarder: Forwarder, journal: ReceivedJournal | None, traffic: TrafficCounters
    ) -> None:
        self._forwarder = forwarder
        self._journal = journal
        self._traffic = traffic
        self._parts: asyncio.Queue[HeldPart] = asyncio.Queue()
        self.unsent = 0
        """Number of spans that the next endpoint has not taken."""

    def start(self) -> None:
        self._sending = asyncio.ensure_future(self._send_always())

    def put(self, part: HeldPart) -> None:
        self.unsent += 1
        self._parts.put_nowait(part)

    async def stop(self, seconds: float) -> None:
        """Send the queued parts within this time."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._parts.join(), seconds)
        self._sending.cancel()
        await asyncio.wait({self._sending})
        if self.unsent:
            _logger.warning("%d held spans could not be forwarded; they stay in the journal", self.unsent)

    async def _send_always(self) -> None:
        while True:
            batch = [await self._parts.get()]
            await asyncio.sleep(_GATHER_SECONDS)  # spans that are released together leave in one batch
            while len(batch) < _BATCH and not self._parts.empty():
                batch.append(self._parts.get_nowait())
            await self._send(batch)

    async def _send(self, batch: Sequence[HeldPart]) -> None:
        """Send a batch. One that is refused for its content is sent span by span."""
        # Joined protobuf messages are read as one, with the elements of all.
        answer = await self._sent(b"".join(part.data for part in batch))
        if answer.status in (400, 413) and len(batch) > 1:
            for part in batch:
                await self._send([part])
            return
        if self._journal is not None:
            self._journal.forwarded([part.key for part in batch])
        lost = min(answer.rejected, len(batch)) if answer.ok else len(batch)
        self._traffic.forwarded("traces", len(batch), lost, "lost")
        if lost:  # its words are not logged: they may quote the spans
            _logger.error("the next endpoint refused %d held spans (status %d)", lost, answer.status)
        self.unsent -= len(batch)
        for _ in batch:
            self._parts.task_done()

    async def _sent(self, body: bytes) -> ExportAnswer:
        """Send a body until it is accepted or refused for good."""
        attempt = 0
        while True:
            answer = await self._forwarder.send("traces", body)
            if answer.ok or answer.retry_after is None:
                return answer
            attempt += 1
            wait = backoff(attempt, first=_FIRST, longest=_LONGEST)
            await asyncio.sleep(max(wait, answer.retry_after))


def _drop_our_names(request: ExportRequest, selection: Selection) -> None:
    """Drop attributes with names of ours from spans that may be judged: senders could make up scores."""
    if not selection.claimed or _OURS.encode() not in request.plain:
        return
    for r, s, i in selection.claimed:
        span = request.message.resource_spans[r].scope_spans[s].spans[i]
        kept = [each for each in span.attributes if not each.key.startswith(_OURS)]
        del span.attributes[:]
        span.attributes.extend(kept)
    request.body = request.plain = request.message.SerializeToString()
    request.content_type, request.encoding = PROTOBUF, ""


# --- spans taken out of requests, to forward them by themselves and with scores; unknown fields stay ---


def without(data: bytes, places: Collection[Place]) -> bytes:
    """Return a request without the spans at these places."""
    request = ExportTraceServiceRequest.FromString(data)
    # From the end, since each deletion moves the spans behind it.
    for r, s, i in sorted(places, reverse=True):
        del request.resource_spans[r].scope_spans[s].spans[i]
    return request.SerializeToString()


def parts_of(data: bytes, places: Collection[Place]) -> Iterator[tuple[Place, bytes]]:
    """Yield the spans at these places, each as a separate request with its resource and scope."""
    request = ExportTraceServiceRequest.FromString(data)
    for (r, s), group in groupby(sorted(places), key=itemgetter(0, 1)):
        block = request.resource_spans[r]
        scoped = block.scope_spans[s]
        part = ExportTraceServiceRequest()
        around = part.resource_spans.add(resource=block.resource, schema_url=block.schema_url)
        beside = around.scope_spans.add(scope=scoped.scope, schema_url=scoped.schema_url)
        for place in group:
            # The same message for each span: resource and scope are copied once.
            del beside.spans[:]
            beside.spans.append(scoped.spans[place[2]])
            yield place, part.SerializeToString()


def with_attributes(part: bytes, attributes: Mapping[str, Any]) -> bytes:
    """Add attributes to a request with a single span."""
    if not attributes:
        return part
    request = ExportTraceServiceRequest.FromString(part)
    span = request.resource_spans[0].scope_spans[0].spans[0]
    for key, value in attributes.items():
        added = span.attributes.add(key=key).value
        if isinstance(value, float):
            added.double_value = value
        else:
            added.string_value = str(value)
    return request.SerializeToString()
