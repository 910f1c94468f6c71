"""Server-sent events that tell an open page of new runs and alarms."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from otel_evals.errors import OtelEvalsError
from otel_evals_monitor._internal.alarms.alarm_record import lasting_alarms
from otel_evals_monitor._internal.store import schema
from otel_evals_monitor._internal.store.database import Database

_EVERY = 2.0
_LONGEST = 600.0
"""Seconds after which a browser connects again."""
_MOST = 64
_HOUR_NS = 3600 * 1_000_000_000


class Live:
    """Reads the store every two seconds, once for all open pages."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = asyncio.Lock()
        self._read = -_EVERY
        self._pulse: dict[str, Any] = {}
        self._open = 0
        self.ending: Callable[[], bool] = lambda: False
        """Returns True when the server ends, which waits for its responses."""

    async def events(self, request: Request) -> Response:
        """Answer with events, one for each change."""
        if self._open >= _MOST:
            return PlainTextResponse("too many open pages", 503, {"Retry-After": "60"})
        headers = {"X-Accel-Buffering": "no"}
        return StreamingResponse(self._stream(request), media_type="text/event-stream", headers=headers)

    async def _stream(self, request: Request) -> AsyncIterator[str]:
        if self._open >= _MOST:  # many pages were opened at the same moment
            yield "retry: 60000\n\n"
            return
        self._open += 1
        try:
            sent: dict[str, Any] = {}
            began = time.monotonic()
            while not self.ending() and time.monotonic() - began < _LONGEST:
                pulse = await self._current()
                if pulse != sent:
                    sent = pulse
                    yield f"data: {json.dumps(pulse)}\n\n"
                else:
                    yield ": \n\n"  # fails once the browser has gone
                for _ in range(int(_EVERY / 0.25)):
                    if self.ending():
                        return
                    await asyncio.sleep(0.25)
        finally:
            self._open -= 1

    async def _current(self) -> dict[str, Any]:
        async with self._lock:
            if time.monotonic() - self._read >= _EVERY:
                with contextlib.suppress(OtelEvalsError):  # the page itself shows the problem
                    self._pulse = await run_in_threadpool(pulse_of, self._database)
                self._read = time.monotonic()
        return self._pulse


def pulse_of(database: Database) -> dict[str, Any]:
    """Return the state that an open page watches: the newest evaluation, the rate of runs, and the alarms."""
    table, runs = schema.evaluations.c, schema.runs.c
    now = time.time_ns()
    with database.reading() as connection:
        newest = connection.execute(select(func.max(table.id))).scalar() or 0
        last = connection.execute(select(func.max(runs.recorded))).scalar()
        recent = select(func.count()).select_from(schema.runs).where(runs.recorded > now - _HOUR_NS)
        count = connection.execute(recent.where(runs.recorded <= now)).scalar_one()
    alarms = [each.id for each in lasting_alarms(database)]
    return {
        "newest": newest,
        "hour": count,
        "last": None if last is None else last // 1_000_000_000,
        "alarms": alarms,
    }
