"""When the traces of messages close: by the time of the messages, not of their arrival."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any

from otel_evals.sdk.pipeline import QuietClosing
from otel_evals_gateway._internal.kafka.progress import Progress

_LOOK_SECONDS = 0.05
"""Seconds until the next look at a trace that waits for the clock."""


class MessageClosing(QuietClosing):
    """Closes a trace of messages once all partitions have been read to some time after its last message.

    It closes as a whole when it is older than `max_age`: it would hold back its partition's offset for as
    long as it goes on. Traces that were received in requests close as usual.
    """

    def __init__(self, progress: Progress, clock: Callable[[], float], *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._progress = progress
        self._clock = clock

    def closes_at(self, trace: Any, now: float) -> float:
        last = self._progress.last(trace.trace_id)
        if last is None:
            return super().closes_at(trace, now)
        seconds = self.seconds(trace)
        left = last + seconds - self._clock()
        if left <= 0 or now >= trace.first_seen + self.max_age:
            return now
        return now + max(_LOOK_SECONDS, min(left, seconds))  # the clock may jump

    def parts(self, trace: Any, now: float) -> list[list[str]]:
        if self._progress.last(trace.trace_id) is None:
            return super().parts(trace, now)
        # At the end of this process, the next reader gets them from their first message on.
        is_over = now < inf and self.closes_at(trace, now) <= now
        return [[*trace.spans]] if is_over else []
