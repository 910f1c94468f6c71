"""Hands scored runs to all destinations, each with its own queue: none delays another."""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from msgspec.structs import replace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value

from otel_evals._internal.deliver.delivery_queue import Delivered, DeliveryQueue
from otel_evals._internal.deliver.destination import Destination, DestinationStats, EventPreset
from otel_evals._internal.deliver.retry import Retry
from otel_evals._internal.model import ScoredRun
from otel_evals._internal.redaction.redactor import redacted
from otel_evals._internal.util.calls import hide_task
from otel_evals._internal.util.cancellation import is_cancelled
from otel_evals._internal.util.error_log import log_error
from otel_evals.errors import ConfigError

_log = logging.getLogger(__name__)
_SECONDS = 10.0
_FAILED: Any = object()


class FanOut:
    """Delivers scored runs to several destinations.

    Everything but `stats` and `failing` is called on one event loop: `run` once as a task, `put` at any time,
    then `shutdown`.
    """

    def __init__(
        self,
        destinations: Sequence[Destination],
        *,
        queue_size: int = 2048,
        max_bytes: int = 2**28,
        batch_size: int = 64,
        delay: float = 0.2,
        retry: Retry | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
        results: asyncio.Queue[Delivered] | None = None,
    ) -> None:
        """Create a queue per destination; a second one of the same name is called `<name>-2`.

        Event presets are ignored. Sizes apply per destination; `max_bytes` is approximate. A batch waits
        `delay` seconds to fill. `results` receives how each delivery ended.

        Raises:
            ConfigError: a size is not positive.
        """
        for field, value in (("queue_size", queue_size), ("batch_size", batch_size)):
            if value < 1:
                raise ConfigError(field, "must be at least 1")
        destinations = [each for each in destinations if not isinstance(each, EventPreset)]
        self._started = False
        link_traces(destinations)
        self._destinations = destinations
        self._queues = [
            DeliveryQueue(
                destination,
                name=name,
                queue_size=queue_size,
                max_bytes=max_bytes,
                batch_size=min(getattr(destination, "batch_size", batch_size), queue_size),
                delay=delay,
                retry=retry or Retry(),
                clock=clock,
                draw=draw,
                results=results,
            )
            for destination, name in zip(destinations, _names(destinations), strict=True)
        ]

    def put(self, scored: ScoredRun, names: Collection[str] | None = None) -> list[str]:
        """Queue a scored run for the destinations named, or for all; returns their names.

        Never waits or raises; full queues are counted. Only the run is redacted: the evaluations were.
        """
        if not self._queues:
            return []
        queues = [queue for queue in self._queues if names is None or queue.name in names]
        leaving = replace(scored, run=redacted(scored.run)) if queues else scored
        for queue in queues:
            queue.put(scored, leaving)
        return [queue.name for queue in queues]

    async def lacking(self, evaluation_ids: Collection[str], revision: int) -> list[str] | None:
        """Return the destinations that lack some of these evaluations in this revision or a later one.

        Those without a `holds` method count as lacking them. Returns None without destinations.
        """
        each = zip(self._queues, self._destinations, strict=True)
        lacking = [q.name for q, d in each if not await _holds(d, evaluation_ids, revision)]
        return lacking if self._queues else None

    async def keep_picks(self, rows: Sequence[Any]) -> bool:
        """Give what rules picked to the destinations that store it; returns whether none failed."""
        return all([await _keeps_picks(each, rows) for each in self._destinations])

    async def run(self) -> None:
        """Deliver until shut down."""
        if self._started:
            return
        self._started = True
        hide_task()
        await _all(queue.run for queue in self._queues)

    async def force_flush(self, deadline_seconds: float) -> bool:
        """Deliver all queued runs; returns whether all were accepted within the deadline."""
        accepted: list[bool] = []

        async def flush(queue: DeliveryQueue) -> None:
            accepted.append(await queue.flush())

        with anyio.move_on_after(deadline_seconds) as scope:
            await _all(partial(flush, queue) for queue in self._queues)
        return all(accepted) and not scope.cancelled_caught

    async def shutdown(self, deadline_seconds: float) -> bool:
        """Deliver what can be delivered in time, drop the rest, and shut the destinations down.

        A tenth of the time, at least 0.1 s, is reserved for shutdown. Returns whether nothing was dropped.
        """
        for queue in self._queues:
            queue.close()
        async with anyio.create_task_group() as group:
            # Delivers queued runs if `run` was never started.
            group.start_soon(self.run)
            with anyio.move_on_after(deadline_seconds * 0.9):
                await _all(queue.finished.wait for queue in self._queues)
            with anyio.move_on_after(max(deadline_seconds * 0.1, 0.1)) as ending:
                await _all(queue.stop for queue in self._queues)
        lost = any("shutdown" in queue.stats.losses or queue.stats.pending for queue in self._queues)
        return not (lost or ending.cancelled_caught)

    def stats(self) -> Mapping[str, DestinationStats]:
        """Return the counts by destination. May be called from any thread."""
        return {queue.name: queue.stats for queue in self._queues}

    @property
    def room(self) -> float:
        """Number of further scored runs that no destination drops. May be called from any thread."""
        return min((queue.room for queue in self._queues), default=math.inf)

    def failing(self) -> tuple[str, ...]:
        """Return the destinations whose last attempt failed. May be called from any thread."""
        return tuple(queue.name for queue in self._queues if queue.failing)


async def _holds(destination: Destination, evaluation_ids: Collection[str], revision: int) -> bool:
    """Return True if the destination already has all of these evaluations."""
    ask = getattr(destination, "holds", None)
    if ask is None:
        return False
    return await _asked(destination, lambda: ask(evaluation_ids, revision), "tell which it has") is True


async def _keeps_picks(destination: Destination, rows: Sequence[Any]) -> bool:
    """Return False if the destination fails to store picks within ten seconds."""
    keep = getattr(destination, "keep_picks", None)
    if keep is None:
        return True
    with anyio.move_on_after(_SECONDS):
        return await _asked(destination, lambda: keep(rows), "keep what rules picked") is not _FAILED
    return False


def link_traces(destinations: Sequence[Any]) -> None:
    """Have destinations that show runs link to their traces at the others."""
    links = [each.trace_url for each in destinations if hasattr(each, "trace_url")]
    for each in destinations:
        if (link_to := getattr(each, "link_to", None)) is not None:
            link_to(links)


async def _asked(destination: Destination, ask: Callable[[], Awaitable[Any]], what: str) -> Any:
    """Return the answer, without tracing the destination's client; `_FAILED` if it raises."""
    token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
    try:
        return await ask()
    except BaseException as error:
        if is_cancelled(error):
            raise
        name = destination.name
        log_error(_log, "Destination %s failed to %s", name, what, error=error, level=logging.WARNING)
        return _FAILED
    finally:
        detach(token)


async def _all(calls: Iterable[Callable[[], Coroutine[Any, Any, object]]]) -> None:
    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(call)


def _names(destinations: Sequence[Destination]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for destination in destinations:
        name = destination.name
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name}-{seen[name]}"
