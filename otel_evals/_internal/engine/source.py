"""Where spans come from, if none may be lost: the engine reports to a source which traces are done.

The engine knows no file and no broker. A journal deletes, and Kafka commits, what is done.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from math import inf

from otel_evals._internal.engine.attempt import Target
from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.model import Run, ScoredRun

_PAUSE = 1.0
"""Seconds for which a trace has had nothing left when it is done: more of its spans may be on their way."""


class Source:
    """A source of spans. Its methods are called on the engine's thread, and do nothing by default."""

    @property
    def problem(self) -> str | None:
        """Why spans may be lost; None if all is well. Read from any thread."""
        return None

    def sampled(self, group: SpanGroup) -> bool:
        """Keep the spans of a run that a rule has sampled, before it is scored; False if it cannot."""
        return True

    def done(self, trace_id: str) -> bool:
        """Forget a trace: nothing of it is open, held for a conversation or undelivered.

        Returns False if more of it is on its way to the engine.
        """
        return True


def _traces(run: Run) -> Sequence[str]:
    # A run that was joined from several traces keeps each of them.
    return run.trace_ids or (run.trace_id,)


class Unfinished:
    """Counts what is left to do for each trace of a source: targets, waiting runs, undelivered scores.

    A trace with nothing left is done once the items that were captured before have been taken.

    Args:
        source: receives the traces that are done.
        is_gathering: returns True if a trace has spans whose run has not closed.
        put: returns the number of items that the intake was given so far.
        clock: `time.monotonic`.
    """

    def __init__(
        self,
        source: Source,
        is_gathering: Callable[[str], bool],
        put: Callable[[], int],
        clock: Callable[[], float],
    ) -> None:
        self.source, self._is_gathering, self._put, self._clock = source, is_gathering, put, clock
        self._left: Counter[str] = Counter()
        self._ending: dict[str, tuple[float, int]] = {}
        """Traces with nothing left, each with the time since when, and the number of items put until then."""
        self.dropping = False
        """True at the end of the engine: what it drops now is not done, but left to the next process."""

    def sampled(self, targets: Iterable[Target]) -> None:
        for target in targets:
            self._add(target.run)

    def waits(self, run: Run, begins: bool) -> None:
        """Count a run that begins to wait for its conversation, or no longer does."""
        if begins:
            self._add(run)
        elif not self.dropping:
            self._remove(run)

    def put(self, target: Target, destinations: Sequence[str]) -> None:
        """Count the deliveries of a target that has ended, instead of the target."""
        # Added before the target is removed: the trace must not seem done in between.
        for _ in destinations:
            self._add(target.run)
        # A dropped target stays counted, so its trace is never reported as done.
        if not self.dropping:
            self._remove(target.run)

    def accepted(self, batch: Sequence[ScoredRun]) -> None:
        """Count a destination's acknowledgement."""
        for scored in batch:
            self._remove(scored.run)

    def touch(self, trace_ids: Iterable[str]) -> None:
        """Note traces that may have had nothing to do at all."""
        for trace_id in trace_ids:
            if trace_id and trace_id not in self._left:
                self._end(trace_id)

    def poll(self, taken: float = inf, *, pause: float = _PAUSE) -> None:
        """Report the traces that are done; `taken` counts the items that the engine has taken."""
        until = self._clock() - pause
        while self._ending:
            trace_id, (since, put) = next(iter(self._ending.items()))
            # Items put before its end may have more spans of the trace. Later entries are no older.
            if since > until or put > taken:
                return
            del self._ending[trace_id]
            # One that gathers comes back when its run closes.
            if not (self._is_gathering(trace_id) or self.source.done(trace_id)):
                self._end(trace_id)

    def _add(self, run: Run) -> None:
        for trace_id in _traces(run):
            self._left[trace_id] += 1
            self._ending.pop(trace_id, None)

    def _remove(self, run: Run) -> None:
        for trace_id in _traces(run):
            self._left[trace_id] -= 1
            if self._left[trace_id] <= 0:
                del self._left[trace_id]
                self._end(trace_id)

    def _end(self, trace_id: str) -> None:
        self._ending.pop(trace_id, None)  # they are in the order of their time
        self._ending[trace_id] = self._clock(), self._put()
