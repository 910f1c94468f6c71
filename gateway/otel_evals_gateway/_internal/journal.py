"""The journal of received spans: acknowledged requests survive the process until their runs are delivered.

The selected items of a request are appended before it is acknowledged, inline with the spans that are held.
An entry is deleted once the engine is done with every trace in it, and every held span is forwarded.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import groupby
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any

from otel_evals.sdk.pipeline import Entry, Journal, Source
from otel_evals_gateway._internal.receiver.answers import RefusedError
from otel_evals_gateway._internal.receiver.decoder import FIELDS, ExportRequest, decode
from otel_evals_gateway._internal.receiver.selection import Selection

_logger = logging.getLogger(__name__)
_HELD = "held"
_KEY = 24
"""Bytes of a trace id and a span id."""
_UNBOUNDED = 2**31


@dataclass(frozen=True, slots=True)
class HeldPart:
    """A held span as a separate request."""

    key: bytes
    """Its trace id and span id."""
    data: bytes
    """An ExportTraceServiceRequest."""


class ReceivedJournal(Source):
    """Appends on the receivers' event loop; the engine reports on its thread which traces are done.

    A trace is not done while items of it wait in the engine's intake: only those that were taken count.
    """

    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder)
        self._lock = threading.Lock()
        self._put_at: dict[str, float] = {}
        """For each trace, the number of items that the intake was given with its latest; infinity before."""
        self._not_kept: set[str] = set()
        """Traces that are scored although a part of them could not be kept."""
        self.failed = False  # to keep the latest request
        self.engine: Any = None
        """Its intake counts the items that it was given and those that the engine has taken."""

    @property
    def problem(self) -> str | None:
        return self._journal.problem

    def append(self, request: ExportRequest, selection: Selection, held: Iterable[HeldPart] = ()) -> bool:
        """Keep the selected items of a request, and its held spans; False if that is impossible."""
        keys = [bytes.fromhex(trace_id) for trace_id in selection.traces]
        parts = [Entry(_HELD, part.key + part.data, [part.key]) for part in held]
        with self._lock:
            entry = Entry(request.signal, _selected(request, selection), keys)
            selection.kept = self._journal.append(entry, *parts)
            self.failed = not selection.kept
            if selection.kept:
                # With the lock: the engine may report a trace that has earlier items as done meanwhile.
                self._put_at.update(dict.fromkeys(selection.traces, inf))
            return selection.kept

    def keeps(self, trace_id: str) -> bool:
        """Return True if everything of a trace was kept."""
        return trace_id not in self._not_kept

    def sampled(self, group: Any) -> bool:
        return all(self.keeps(span.trace_id) for span in group.spans)

    def put(self, selection: Selection, number: float) -> None:
        """Note that the engine has the items of a selection, up to this number."""
        with self._lock:
            self._put_at.update(dict.fromkeys(selection.traces, number))
            if not selection.kept:
                self._not_kept |= selection.traces

    def done(self, trace_id: str) -> bool:
        with self._lock:
            if self._put_at.get(trace_id, 0) > self.engine.intake.taken:
                return False
            self._put_at.pop(trace_id, None)
            self._not_kept.discard(trace_id)
            self._journal.done(bytes.fromhex(trace_id))
            return True

    def forwarded(self, keys: Collection[bytes]) -> None:
        """Drop held spans that were forwarded."""
        self._journal.done(*keys)

    async def replay(
        self, take: Callable[[ExportRequest], Awaitable[Any]], restore: Callable[[HeldPart], object]
    ) -> None:
        """Hand over the entries that earlier processes did not finish."""
        for kind, payload, keys in self._journal.adopt():
            await asyncio.sleep(0)  # requests and pages are answered meanwhile
            if kind == _HELD:
                restore(HeldPart(payload[:_KEY], payload[_KEY:]))
                continue
            try:
                await take(
                    decode(ExportRequest("traces" if kind == "traces" else "logs", payload), _UNBOUNDED)
                )
            except RefusedError as error:
                _logger.error("a request of an earlier process cannot be read: %s", error)
                self._journal.done(*keys)

    def close(self) -> None:
        """Close the files; entries that are not done stay."""
        self._journal.close()


def _selected(request: ExportRequest, selection: Selection) -> bytes:
    """Return a request with only the selected spans or log records."""
    # The usual case with everything sampled: nothing is copied.
    if len(selection.places) == selection.seen:
        return request.plain
    blocks, scopes, records = FIELDS[request.signal]
    part: Any = type(request.message)()
    for (r, s), places in groupby(selection.places, key=itemgetter(0, 1)):
        from_block = getattr(request.message, blocks)[r]
        from_scope = getattr(from_block, scopes)[s]
        block = getattr(part, blocks).add(resource=from_block.resource)
        scoped = getattr(block, scopes).add(scope=from_scope.scope)
        getattr(scoped, records).extend(getattr(from_scope, records)[place[2]] for place in places)
    return bytes(part.SerializeToString())
