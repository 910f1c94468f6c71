"""What the engine reports to a member: traces that are done, and runs for members with conversations."""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple

from otel_evals.model import Loss, Run
from otel_evals.sdk.pipeline import Source, conversation_digest, encode_run
from otel_evals_gateway._internal.kafka.clients import Outgoing, Producing
from otel_evals_gateway._internal.kafka.conversation_topic import PASSED
from otel_evals_gateway._internal.kafka.progress import Progress
from otel_evals_gateway._internal.scoring_engine import ScoringEngine

_logger = logging.getLogger(__name__)
_MOST_OUTGOING = 2_000
"""Reports from which no further trace is closed."""


class _Done(NamedTuple):
    trace_id: str
    when: float
    put: int
    """Number of items that the engine had been given by then; some may be of this trace."""


class Reports(Source):
    """Takes reports on the engine's thread, and handles them on the consumer's.

    Args:
        topic: of conversations; None if runs are not passed on.
        progress: gets the traces that are done.
        producing: writes runs to the topic.
    """

    scoring: ScoringEngine

    def __init__(self, topic: str | None, progress: Progress, producing: Producing) -> None:
        self._topic, self._progress, self._producing = topic, progress, producing
        self._waiting: deque[Run | _Done] = deque()
        self._outgoing: Counter[str] = Counter()
        """Runs on their way to the topic, by trace id."""

    # --- the engine's thread ---

    def pass_on(self, run: Run) -> bool:
        if self._topic is None or not run.conversation_id:
            return False
        self._waiting.append(run)
        return True

    def done(self, trace_id: str) -> None:
        when = time.monotonic()
        self._waiting.append(_Done(trace_id, when, self.scoring.engine.intake.put))

    def passed_done(self, trace_id: str) -> None:
        self.done(PASSED + trace_id)

    def capacity(self) -> float:
        outgoing = sum(list(self._outgoing.values()))
        return max(0, _MOST_OUTGOING - len(self._waiting) - outgoing)

    # --- the consumer's thread ---

    def handle(self) -> None:
        """Pass runs on, and note what is done."""
        taken = self.scoring.engine.intake.taken
        for _ in range(len(self._waiting)):
            report = self._waiting.popleft()
            if isinstance(report, Run):
                self._send(report)
            # A trace is not done while a run of it is not in the topic.
            elif self._outgoing[report.trace_id] or taken < report.put:
                self._waiting.append(report)  # its runs, or later items, are on their way
            else:
                self._progress.finish(report.trace_id, report.when)
                # A counter keeps its zeros, which would pile up.
                del self._outgoing[report.trace_id]

    def _send(self, run: Run) -> None:
        traces: Sequence[str] = run.trace_ids or (run.trace_id,)
        # Members count these runs, which they will never score, by their ids.
        ruled_out = self.scoring.engine.conversations.rules_out(run)
        try:
            value = encode_run(run, only_ids=ruled_out)
        except Exception:
            _logger.exception("a run of a conversation cannot be passed on")
            self.scoring.lost(Loss("run", "unreadable", run.trace_id))
            return

        def written(problem: str | None) -> None:
            self._outgoing.subtract(traces)
            if problem is not None:
                self.scoring.lost(Loss("run", "too_large_to_pass_on", run.trace_id))

        self._outgoing.update(traces)
        key = conversation_digest(run).encode()
        self._producing.put(Outgoing(self._topic or "", value, key, {}, written))
