"""Introspection of a running engine: what happened to a trace, health, losses.

May be called on any thread, and changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from otel_evals._internal.accounting.explanation import Explanation, explain_logged, explain_unknown
from otel_evals._internal.accounting.health import Health, judge_health
from otel_evals._internal.accounting.ledger import Ledger, LoggedTrace
from otel_evals._internal.config.options import Config
from otel_evals._internal.pipeline.engine_thread import EngineThread
from otel_evals._internal.pipeline.steps import Steps

_LONGEST_BACKOFF = 40.0
"""Seconds between two attempts, generously: longer than the workers' longest backoff with jitter."""


class Inspector:
    """Inspects an engine that runs on a thread of this process.

    Args:
        config: rules and limits.
        thread: the engine's thread.
        ledger: counters and trace log.
        steps: what waits in assembly, deliveries and counters.
    """

    def __init__(
        self,
        config: Config,
        thread: EngineThread[Any],
        ledger: Ledger,
        steps: Steps,
    ) -> None:
        self._config = config
        self._thread = thread
        self._ledger = ledger
        self._steps = steps
        self._longest_attempt = max((rule.timeout for rule in config.rules), default=0.0)

    def explain(self, trace_id: int | str, trace_state: str = "") -> Explanation:
        """What happened to a trace. Waits up to a second for the engine to empty its intake."""
        trace = trace_id_of(trace_id)
        if self._thread.started and self._thread.waiting:
            self._thread.run(self._drain(), 1.0)
        waiting = self._steps.gatherer.waiting(trace)
        logged = self._ledger.trace_log.get(trace)
        if logged is None and not waiting:
            return explain_unknown(trace, self._config.ceiling, trace_state, tuple(self._possible_reasons()))
        samplers = {rule.name: str(rule.sample) for rule in self._config.rules}
        return explain_logged(
            trace, logged or LoggedTrace(), samplers, waiting, self._steps.rule_sets.running()
        )

    def health(self, stalled_after: float, *, closed: bool) -> Health:
        """Whether scoring makes progress."""
        now, engine, counters = time.monotonic(), self._thread, self._ledger
        since_beat = None if engine.beat is None else now - engine.beat
        waiting, pending, failing = engine.waiting, counters.pending, self._ledger.failures.failing()
        status, problem = judge_health(
            closed=closed,
            started=engine.started,
            thread_alive=engine.alive,
            waiting=waiting,
            pending=pending,
            since_beat=since_beat,
            since_progress=now - counters.moved,
            beat_limit=stalled_after,
            progress_limit=self._longest_attempt + _LONGEST_BACKOFF + stalled_after,
            failing=failing,
            unstartable=engine.unstartable,
        )
        return Health(
            status=status,
            problem=problem,
            thread_alive=engine.alive,
            waiting=waiting,
            pending=pending,
            last_beat=since_beat,
            last_end=None if counters.last_end is None else now - counters.last_end,
            failing_destinations=self._steps.fan_out.failing(),
            failing_rules=failing,
            content_off=dict(self._ledger.content.off),
            losses=self._steps.losses(),
        )

    async def _drain(self) -> None:
        self._thread.drain()

    def _possible_reasons(self) -> Iterator[str]:
        """Why there may be no record of a trace that sampling did not rule out."""
        yield (
            "Possible reasons: it was not recorded in this process, no dialect claims its spans, "
            "or the application's own sampler did not sample it."
        )
        if self._thread.refused:
            yield (
                f"The full intake refused {self._thread.refused} spans or log records; "
                "this trace's may be among them."
            )
        if len(self._ledger.trace_log) >= self._config.explain_traces:
            yield f"The trace log keeps only the last {len(self._ledger.trace_log)} traces."


def trace_id_of(trace_id: int | str) -> str:
    """A trace id as 32 lower-case hex digits.

    Raises:
        ValueError: the value is not a trace id.
    """
    try:
        number = trace_id if isinstance(trace_id, int) else int(trace_id.strip(), 16)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 128:
        raise ValueError(f"{trace_id!r} is not a trace id: give 32 hex digits, or the id as a number")
    return f"{number:032x}"
