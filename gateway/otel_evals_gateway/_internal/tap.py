"""Tap: scores a copy of the traffic, and forwards nothing.

A request is answered once its selected items are in the engine's memory and in the journal, if there is one.
If there is no capacity, the sender is asked to send again.
"""

from __future__ import annotations

import asyncio
from math import inf

from otel_evals_gateway._internal.counters import TrafficCounters
from otel_evals_gateway._internal.journal import ReceivedJournal
from otel_evals_gateway._internal.receiver.answers import ExportAnswer
from otel_evals_gateway._internal.receiver.decoder import ExportRequest
from otel_evals_gateway._internal.receiver.selection import Selection, Selector
from otel_evals_gateway._internal.scoring_engine import ScoringEngine

BUSY = ExportAnswer(429, "no capacity for more spans", retry_after=1.0)
PUT_SECONDS = 5.0
_LARGE = 64 * 1024
"""Bytes from which a thread looks through a request, so others need not wait."""


class Tap:
    """Takes requests; `selector` may be replaced while it runs."""

    def __init__(
        self,
        selector: Selector,
        scoring: ScoringEngine,
        traffic: TrafficCounters,
        journal: ReceivedJournal | None,
    ) -> None:
        self.selector = selector
        self.scoring = scoring
        self.traffic = traffic
        self.journal = journal
        self.patience = inf
        """Seconds that requests of an earlier process wait for capacity before they are lost."""

    async def take(self, request: ExportRequest) -> ExportAnswer:
        """Take a decoded request; return the answer to its sender."""
        selection = await self.look_through(request)
        if selection.items:
            if not self.scoring.has_capacity(len(selection.items)):
                return BUSY
            # Before the items are in the engine: a crash in between must not lose what is acknowledged.
            if self.journal is not None and not self.journal.append(request, selection):
                return ExportAnswer(503, "the journal of received spans cannot be written", retry_after=5.0)
            await self.judge(request.signal, selection)
        self.traffic.received(request.signal, selection)
        return rejection(selection)

    async def look_through(self, request: ExportRequest) -> Selection:
        """Select the items to judge, on a thread if the request is large."""
        if len(request.plain) < _LARGE:
            return self.select(request)
        return await asyncio.to_thread(self.select, request)

    def select(self, request: ExportRequest) -> Selection:
        if request.signal == "traces":
            return self.selector.spans(request.message)
        return self.selector.logs(request.message)

    async def judge(self, signal: str, selection: Selection, seconds: float = PUT_SECONDS) -> None:
        """Give the items to the engine, all or none; count them as lost if it has no capacity for so long.

        Runs that lack lost items are not scored.
        """
        put = await self.scoring.put(selection.items, seconds, roots=selection.roots)
        if self.journal is not None:
            self.journal.put(selection, self.scoring.engine.intake.put)
        if not put:
            self.traffic.count(signal, "lost", len(selection.items))
            # It waits for the engine's thread, which the event loop must not.
            await asyncio.to_thread(self.scoring.lack, selection.items)

    async def take_again(self, request: ExportRequest) -> None:
        """Judge a request that an earlier process acknowledged."""
        await self.judge(request.signal, self.select(request), self.patience)


def rejection(selection: Selection) -> ExportAnswer:
    """Return the answer to an accepted request, with its malformed items."""
    reasons = ", ".join(f"{count} with {reason}" for reason, count in selection.rejected.items())
    return ExportAnswer(rejected=selection.rejected.total(), message=reasons)
