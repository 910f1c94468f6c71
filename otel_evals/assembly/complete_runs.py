"""Which runs may close when their root ends, instead of waiting for what could come later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator

from otel_evals.assembly.learned_scopes import LearnedScopes
from otel_evals.intake.open_spans import OpenSpansNow
from otel_evals.model import SpanRecord

__all__ = ["CompleteRuns"]


class CompleteRuns:
    """Finds the roots whose runs are complete: nothing is open, and nothing is known to come late.

    Args:
        open_spans: the spans that have not ended; without it, every run waits for its grace period.
    """

    def __init__(self, open_spans: Callable[[], OpenSpansNow] | None) -> None:
        self._look = open_spans
        self._now: OpenSpansNow | None = None
        self._added = 0
        self._roots: deque[tuple[int, str, str]] = deque()
        """Trace and span ids, each with how many items must have been added before the run closes."""
        self.learned = LearnedScopes()

    def adding(self, count: int) -> None:
        """A batch of so many items is about to be added."""
        self._added += count
        self._now = None

    def root_ended(self, root: SpanRecord, scopes: Collection[str]) -> None:
        """A root has ended in a trace with these instrumentation scopes."""
        if self._look is None or not self.learned.complete(scopes):
            return
        now = self._now = self._now or self._look()
        if now.only_above(int(root.trace_id, 16), int(root.parent_span_id or "0", 16)):
            # Everything that was handed over before now is added first.
            self._roots.append((self._added + now.waiting, root.trace_id, root.span_id))

    @property
    def ready(self) -> bool:
        """Whether a run may close."""
        return bool(self._roots) and self._roots[0][0] <= self._added

    def take(self) -> Iterator[tuple[str, str]]:
        """Trace and span ids of the roots whose runs may close."""
        while self.ready:
            _, trace_id, span_id = self._roots.popleft()
            yield trace_id, span_id
