"""Hands scored runs to all destinations, each with its own queue: none delays another."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from msgspec.structs import replace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, set_value

from otel_evals._internal.deliver.delivery_queue import DeliveryQueue, Ended
from otel_evals._internal.deliver.destination import Destination, DestinationStats, EventPreset
from otel_evals._internal.deliver.retry import Limits
from otel_evals._internal.model import ScoredRun
from otel_evals._internal.redaction.redactor import redacted
from otel_evals._internal.util.calls import outcome_of
from otel_evals._internal.util.error_log import log_error

_log = logging.getLogger(__name__)
_SECONDS = 10.0


class FanOut:
    """Delivers scored runs to several destinations.

    Everything but `stats` and `failing` is called on one event loop: `run` once as a task, `put` at any time,
    then `shutdown`.
    """

    def __init__(
        self, destinations: Sequence[Destination], *, ended: Ended | None = None, **limits: Any
    ) -> None:
        """Create a queue per destination; a second one of the same name is called `<name>-2`.

        Event presets are ignored. `ended` is called with the end of each delivery; the other arguments are
        the fields of `Limits`, which apply per destination.
        """
        bounds = Limits(**limits)
        destinations = [each for each in destinations if not isinstance(each, EventPreset)]
        self._started = False
        self._queues = [
            DeliveryQueue(destination, name, bounds, ended)
            for destination, name in zip(destinations, _names(destinations), strict=True)
        ]

    def put(
        self, scored: ScoredRun, names: Collection[str] | None = None, *, kept: bool = False
    ) -> list[str]:
        """Queue a scored run for the destinations named, or for all; returns their names.

        Never waits or raises. A run that is `kept` to be put again later is not counted as lost, unless a
        destination refuses it for good; `ended` is told every end. Only the run is redacted: the
        evaluations were.
        """
        queues = [queue for queue in self._queues if names is None or queue.name in names]
        # Once for all destinations, and only if one takes it.
        leaving = replace(scored, run=redacted(scored.run)) if queues else scored
        for queue in queues:
            queue.put(scored, leaving, kept=kept)
        return [queue.name for queue in queues]

    async def keep_picks(self, rows: Sequence[Any]) -> bool:
        """Give what rules picked to the destinations that store it; returns whether none failed."""
        failed = False
        for queue in self._queues:
            keep = getattr(queue.destination, "keep_picks", None)
            if keep is None:
                continue
            # The store's own database calls must not show up in traces.
            token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
            try:
                answer = await outcome_of(lambda keep=keep: keep(rows), _SECONDS)  # type: ignore[misc]
            finally:
                detach(token)
            if isinstance(answer, BaseException):
                failed = True
                message = "Destination %s failed to keep what rules picked"
                log_error(_log, message, queue.name, error=answer, level=logging.WARNING)
        return not failed

    async def run(self) -> None:
        """Deliver until shut down."""
        if self._started:
            return
        self._started = True
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
    def capacity(self) -> float:
        """Number of further scored runs that no destination drops. May be called from any thread."""
        return min((queue.capacity for queue in self._queues), default=math.inf)

    def failing(self) -> tuple[str, ...]:
        """Return the destinations whose last attempt failed. May be called from any thread."""
        return tuple(queue.name for queue in self._queues if queue.failing)


async def _all(calls: Iterable[Callable[[], Coroutine[Any, Any, object]]]) -> None:
    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(call)


def _names(destinations: Sequence[Destination]) -> Iterator[str]:
    seen: Counter[str] = Counter()
    for destination in destinations:
        name = getattr(destination, "name", "") or type(destination).__name__
        seen[name] += 1
        yield name if seen[name] == 1 else f"{name}-{seen[name]}"
