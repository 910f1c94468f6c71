"""When each recorded item is sent again, and by how much the times of its trace move."""

from __future__ import annotations

from collections.abc import Sequence

from otel_evals_gateway._internal.replay.recording import Recorded

__all__ = ["sending_times", "shifts"]

_APART = 1_000
"""Nanoseconds that traces stay apart at most where one has to move further back for another."""


def sending_times(items: Sequence[Recorded], speed: float, max_gap: float) -> list[float]:
    """Seconds after the first item at which each is to be sent.

    Args:
        items: in the order in which they were known.
        speed: how many times faster than they were recorded; infinity for all at once.
        max_gap: seconds to which a longer pause between two of them is cut.
    """
    times: list[float] = []
    at, before = 0.0, None
    for item in items:
        if before is not None:
            at += min((item.known - before) / 1e9 / speed, max_gap)
        before = item.known
        times.append(at)
    return times


def shifts(items: Sequence[Recorded], times: Sequence[float]) -> list[int]:
    """By how many nanoseconds each item's times move, so that the sending of the first is at zero.

    All of a trace moves by the same time, so that durations and the distances in it stay. It moves as near
    to the present as nothing of it comes to lie after its own sending, and no trace comes to begin before
    one that began before it: the turns of a conversation stay in order.

    Args:
        items: in the order in which they were known.
        times: when each is sent, in seconds.
    """
    starts: dict[bytes | Recorded, int] = {}
    bounds: dict[bytes | Recorded, int] = {}
    keys: list[bytes | Recorded] = [item.trace or item for item in items]
    for key, item, time in zip(keys, items, times, strict=True):
        bound = round(time * 1e9) - item.known
        starts[key] = min(starts.get(key, item.start), item.start)
        bounds[key] = min(bounds.get(key, bound), bound)
    found: dict[bytes | Recorded, int] = {}
    next_start: int | None = None
    next_new = 0
    for key in sorted(starts, key=starts.__getitem__, reverse=True):
        new = starts[key] + bounds[key]
        if next_start is not None:
            new = min(new, next_new - min(_APART, next_start - starts[key]))
        found[key] = new - starts[key]
        next_start, next_new = starts[key], new
    return [found[key] for key in keys]
