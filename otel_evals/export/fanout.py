"""Gives scored runs to every destination, so that none of them waits for another."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import anyio

from otel_evals.errors import ConfigError
from otel_evals.export.lane import DestinationStats, Lane, Retry, Told
from otel_evals.export.socket import Destination
from otel_evals.model import ScoredRun

__all__ = ["DestinationStats", "FanOut", "Retry"]


class FanOut:
    """Hands scored runs to destinations, each at its own pace, behind its own bounded queue.

    Everything but `stats` is called on one event loop: `put` freely, `run` once as a task, then `shutdown`.
    """

    def __init__(
        self,
        destinations: Sequence[Destination],
        *,
        queue_size: int = 2048,
        batch_size: int = 64,
        delay: float = 0.2,
        retry: Retry | None = None,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
        told: Told | None = None,
    ) -> None:
        """Build the lanes.

        Args:
            destinations: where to; two of the same name are told apart by a number.
            queue_size: scored runs held per destination; more are dropped and counted.
            batch_size: most scored runs in one batch.
            delay: seconds a batch waits for company.
            retry: when a refused batch is sent again.
            clock: seconds, monotonic.
            draw: random numbers in [0, 1), for the jitter of retries.
            told: called with a destination's name, scored runs and their end there: `exported` or the reason
                of their loss.

        Raises:
            ConfigError: a size is not positive.
        """
        for field, value in (("queue_size", queue_size), ("batch_size", batch_size)):
            if value < 1:
                raise ConfigError(field, "must be at least 1")
        self._started = False
        self._lanes = [
            Lane(
                destination,
                name=name,
                queue_size=queue_size,
                batch_size=min(batch_size, queue_size),
                delay=delay,
                retry=retry or Retry(),
                clock=clock,
                draw=draw,
                told=told,
            )
            for destination, name in zip(destinations, _names(destinations), strict=True)
        ]

    def put(self, scored: ScoredRun) -> None:
        """Queue a scored run for every destination. Never waits, never raises; lack of room is counted."""
        self.put_to(scored, None)

    def put_to(self, scored: ScoredRun, names: Collection[str] | None) -> list[str]:
        """Queue a scored run for the destinations named, or for all; returns the names of those there are."""
        lanes = [lane for lane in self._lanes if names is None or lane.name in names]
        for lane in lanes:
            lane.put(scored)
        return [lane.name for lane in lanes]

    async def lacking(self, evaluation_ids: Collection[str], revision: int) -> list[str] | None:
        """The destinations that do not hold all of these evaluations, in this revision or a later one.

        A destination that has no `holds` method cannot tell, and is taken to lack them. None when there is
        no destination.
        """
        lanes = [lane for lane in self._lanes if not await lane.holds(evaluation_ids, revision)]
        return [lane.name for lane in lanes] if self._lanes else None

    async def run(self) -> None:
        """Deliver until shut down; start it as a task beside the others of the engine."""
        if self._started:
            return
        self._started = True
        await _all(lane.run for lane in self._lanes)

    async def force_flush(self, deadline_seconds: float) -> bool:
        """Deliver what was put so far; whether all of it was accepted within the deadline."""
        accepted: list[bool] = []

        async def flush(lane: Lane) -> None:
            accepted.append(await lane.flush())

        with anyio.move_on_after(deadline_seconds) as scope:
            await _all(partial(flush, lane) for lane in self._lanes)
        return all(accepted) and not scope.cancelled_caught

    async def shutdown(self, deadline_seconds: float) -> bool:
        """Deliver what can be delivered in time, count the rest as dropped, and release the destinations.

        Returns whether nothing was left behind. A tenth of the time, and no less than 0.1 s, is kept for
        the releasing.
        """
        for lane in self._lanes:
            lane.close()
        async with anyio.create_task_group() as group:
            # Where `run` was never started, or not yet, what was put is delivered from here.
            group.start_soon(self.run)
            with anyio.move_on_after(deadline_seconds * 0.9):
                await _all(lane.finished.wait for lane in self._lanes)
            with anyio.move_on_after(max(deadline_seconds * 0.1, 0.1)) as ending:
                await _all(lane.end for lane in self._lanes)
        lost = any("shutdown" in lane.stats.losses or lane.stats.pending for lane in self._lanes)
        return not (lost or ending.cancelled_caught)

    def stats(self) -> Mapping[str, DestinationStats]:
        """Counts of scored runs, by destination. May be called from any thread."""
        return {lane.name: lane.stats for lane in self._lanes}

    def failing(self) -> tuple[str, ...]:
        """Destinations that refused the last batch. May be called from any thread."""
        return tuple(lane.name for lane in self._lanes if lane.failing)


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
