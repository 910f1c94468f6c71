"""Which runs may close when their root ends, instead of waiting for what could come later.

A run is complete when no span of its trace is open. Some instrumentations write log records, or whole spans,
from another thread after that. So the first runs of each instrumentation scope wait for the whole grace
period, and what arrives meanwhile is observed. A scope for which anything came after the root's end, or that
writes log records at all, keeps waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import Final

from otel_evals._internal.capture.open_spans import OpenSpansNow
from otel_evals._internal.model import SpanRecord

_RUNS_TO_LEARN: Final = 32
"""Runs of a scope that wait for the whole grace period before it is known to be complete."""
_MOST_SCOPES: Final = 1_000
_INCOMPLETE: Final = -1


class CompleteRuns:
    """Finds the roots whose runs are complete: nothing is open, and nothing is known to come late.

    Args:
        open_spans: the spans that have not ended; without it, every run waits for its grace period.
    """

    def __init__(self, open_spans: Callable[[], OpenSpansNow] | None) -> None:
        self._look = open_spans
        self._now: OpenSpansNow | None = None
        self._added = 0
        self.roots: deque[tuple[int, str, str]] = deque()
        """Those whose runs are complete: how many items must have been added first, trace and span id."""
        self._runs: dict[str, int] = {}
        """By scope: how many of its runs waited and were complete when their root ended."""

    def adding(self, count: int) -> bool:
        """A batch of so many items is about to be added; returns whether a root waits for that."""
        self._added += count
        self._now = None
        return bool(self.roots)

    def root_ended(self, root: SpanRecord, scopes: Collection[str]) -> bool:
        """A root has ended in a trace with these scopes; returns whether its run is complete."""
        if self._look is None or any(self._runs.get(scope, 0) < _RUNS_TO_LEARN for scope in scopes):
            return False
        now = self._now = self._now or self._look()
        ids = int(root.trace_id, 16), int(root.span_id, 16), int(root.parent_span_id or "0", 16)
        after = now.complete_after(*ids, self._added)  # everything that was handed over before is added first
        if after is None:
            return False
        self.roots.append((after, root.trace_id, root.span_id))
        return True

    def take(self) -> list[tuple[str, str]]:
        """Trace and span ids of the roots whose runs may close now."""
        taken = []
        while self.roots and self.roots[0][0] <= self._added:
            _, trace_id, span_id = self.roots.popleft()
            taken.append((trace_id, span_id))
        return taken

    def learn(self, scopes: Collection[str], *, complete: bool) -> None:
        """Take note of a run that has waited for its grace period, or of what came after a run had closed."""
        runs = self._runs
        for scope in scopes:
            known = runs.get(scope, 0)
            if scope not in runs and len(runs) >= _MOST_SCOPES:
                continue  # a scope that is not known is never complete
            if not complete:
                runs[scope] = _INCOMPLETE
            elif known != _INCOMPLETE:
                runs[scope] = min(known + 1, _RUNS_TO_LEARN)
