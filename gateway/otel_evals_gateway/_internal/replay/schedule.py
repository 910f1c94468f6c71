"""The schedule of a replay: sending times of items, and time shifts of traces."""

from __future__ import annotations

from collections.abc import Sequence

from otel_evals_gateway._internal.replay.recording import Recorded

_APART = 1_000
"""Maximum distance in nanoseconds between traces of which one has to move back for the other."""


def sending_times(items: Sequence[Recorded], speed: float, max_gap: float) -> list[float]:
    """Return the sending time of each item, in seconds after the first.

    Args:
        items: in the order of `known`.
        speed: factor over the recorded speed; infinity for all at once.
        max_gap: seconds to which longer pauses are cut.
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
    """Return the shift of each item's times in nanoseconds; the first item is sent at zero.

    A whole trace moves by one shift, which keeps its durations and distances. It moves as close to the
    present as possible without an item later than its own sending. Traces keep the order of their starts, and
    thereby conversations the order of their turns.

    Args:
        items: in the order of `known`.
        times: sending times, in seconds.
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
