"""Tap: takes a copy of the traffic; what may be sampled goes to the stages, and nothing is passed on.

A request is answered once what may be sampled of it is in the stages' memory and, with a store, in the
journal of received spans as well. When there is no room, the sender is asked to send again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from otel_evals_gateway._internal.journal import HeldPart, Journal
from otel_evals_gateway._internal.receiver.answers import ExportAnswer
from otel_evals_gateway._internal.receiver.decoder import ExportRequest
from otel_evals_gateway._internal.receiver.selection import Selection, Selector
from otel_evals_gateway._internal.scoring_engine import Scoring
from otel_evals_gateway._internal.traffic_counters import Traffic

__all__ = ["BUSY", "Tap", "rejection"]

BUSY = ExportAnswer(429, "there is no room for more spans", retry_after=1.0)
_LARGE = 256 * 1024
"""Bytes of a request from which it is looked through on a thread, so that others are not kept waiting."""
_PUT_SECONDS = 30.0


class Tap:
    """Takes requests.

    Args:
        selector: selects what may be judged.
        scoring: judges it.
        traffic: counts.
        journal: keeps what may be sampled over a crash.
    """

    def __init__(self, selector: Selector, scoring: Scoring, traffic: Traffic, journal: Journal) -> None:
        self._selector = selector
        self._scoring = scoring
        self._traffic = traffic
        self._journal = journal

    async def take(self, request: ExportRequest) -> ExportAnswer:
        """Take a decoded request; returns what its sender is told."""
        selection = await self.look_through(request)
        if selection.items:
            if not self._scoring.has_room(len(selection.items)):
                return BUSY
            if not self._journal.append(request, selection):
                return ExportAnswer(503, "the journal of received spans cannot be written", retry_after=5.0)
            await self.judge(request.signal, selection)
        self._traffic.received(request.signal, selection)
        return rejection(selection)

    def use_selector(self, selector: Selector) -> None:
        """Select what may be judged with another selector from now on."""
        self._selector = selector

    async def look_through(self, request: ExportRequest) -> Selection:
        """Select what of a request may be judged, without keeping other requests waiting."""
        if len(request.plain) < _LARGE:
            return self.select(request)
        return await asyncio.to_thread(self.select, request)

    def select(self, request: ExportRequest) -> Selection:
        """What of a request may be judged."""
        if request.signal == "traces":
            return self._selector.spans(request.message)
        return self._selector.logs(request.message)

    async def judge(self, signal: str, selection: Selection) -> None:
        """Give the stages what may be judged, as a whole; if there is no room for long, it is counted."""
        if not await self._scoring.put(selection.items, _PUT_SECONDS):
            self._traffic.lost(signal, len(selection.items))

    def received(self, signal: str, selection: Selection) -> None:
        """Count what was read otherwise than from a request."""
        self._traffic.received(signal, selection)

    def restore(self, held: Iterable[HeldPart]) -> None:
        """Nothing is held in tap; spans that an earlier process held inline stay in the journal."""


def rejection(selection: Selection) -> ExportAnswer:
    """The answer to a request that was taken, with what was malformed in it."""
    reasons = ", ".join(f"{count} with {reason}" for reason, count in selection.rejected.items())
    return ExportAnswer(rejected=selection.rejected.total(), message=reasons)
