"""Decides which runs close when their root ends, instead of waiting for late spans and logs.

A run is complete when no span of its trace is open. Some instrumentations write log records, or whole spans,
from another thread after that. So the first runs of each instrumentation scope wait for the whole grace
period while late arrivals are counted. A scope that had any, or that writes log records,
keeps waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from otel_evals._internal.capture.open_spans import OpenSpansNow
from otel_evals._internal.model import SpanRecord

_RUNS_TO_LEARN: Final = 32
"""Runs of a scope that wait for the whole grace period before the scope counts as complete."""
_MOST_SCOPES: Final = 1_000
_INCOMPLETE: Final = -1


class CompleteRuns:
    """Finds the roots whose runs are complete: no span is open, and no late span or log is expected.

    Args:
        open_spans: returns the spans that have not ended; without it, every run waits for its grace period.
    """

    def __init__(self, open_spans: Callable[[], OpenSpansNow] | None) -> None:
        self._look = open_spans
        self._now: OpenSpansNow | None = None
        self._added = 0
        self.roots: deque[tuple[int, str, str]] = deque()
        """Roots of complete runs: the number of items to add first, trace id and span id."""
        self._runs: dict[str, int] = {}
        """By scope: the number of its runs that waited and were complete when their root ended."""

    def adding(self, count: int) -> bool:
        """Count a batch of items that is about to be added; returns True if a root waits for them."""
        self._added += count
        self._now = None
        return bool(self.roots)

    def root_ended(self, root: SpanRecord, scopes: Collection[str]) -> bool:
        """Return True if the run of a root that has ended in a trace with these scopes is complete."""
        if self._look is None:
            return False
        for scope in scopes:
            if self._runs.get(scope, 0) < _RUNS_TO_LEARN:
                return False
        now = self._now = self._now or self._look()
        if not now.only_above(int(root.trace_id, 16), int(root.parent_span_id or "0", 16)):
            return False
        # The items handed over before that moment are added first.
        self.roots.append((self._added + now.waiting, root.trace_id, root.span_id))
        return True

    def take(self) -> list[tuple[str, str]]:
        """Return trace and span ids of the roots whose runs may close now."""
        taken = []
        while self.roots and self.roots[0][0] <= self._added:
            _, trace_id, span_id = self.roots.popleft()
            taken.append((trace_id, span_id))
        return taken

    def learn(self, scopes: Collection[str], *, complete: bool) -> None:
        """Record if a run was complete after its grace period, or that something arrived late."""
        runs = self._runs
        for scope in scopes:
            known = runs.get(scope, 0)
            if scope not in runs and len(runs) >= _MOST_SCOPES:
                continue  # an unknown scope is never complete
            if not complete:
                runs[scope] = _INCOMPLETE
            elif known != _INCOMPLETE:
                runs[scope] = min(known + 1, _RUNS_TO_LEARN)
