"""The engine, which runs on a thread of this process."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from typing import Any, TypeVar

from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.accounting.explanation import Explanation
from otel_evals._internal.accounting.health import Health
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.capture.items import IntakeItem
from otel_evals._internal.capture.open_spans import OpenSpans
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.destination import DestinationStats
from otel_evals._internal.dialect import Dialects
from otel_evals._internal.evaluate.queue_interface import DurableQueue
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals._internal.pipeline.engine_thread import EngineThread
from otel_evals._internal.pipeline.inspection import Inspector
from otel_evals._internal.pipeline.steps import Steps
from otel_evals._internal.redaction.redactor import private_context
from otel_evals._internal.util.calls import hide_task
from otel_evals._internal.util.cancellation import must_propagate
from otel_evals._internal.util.error_log import tell

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)

_GATHER_SECONDS = 0.005
"""How long captured items are batched."""
_GATHER_SECONDS_WITH_STORE = 0.002
"""The same with a store, which should have them soon."""
_LATE_SECONDS = 0.2
"""How long after its deadline a step of the shutdown is waited for."""
_COUNT_SECONDS = 0.5
"""How long the thread has, at least, to count what it did not score. It takes longer only if code that runs
on it waits, such as a scorer marked `inline`; it then counts when it can."""


class Engine:
    """The engine on a thread of this process.

    Args:
        config: rules, destinations, limits.
        dialects: read spans.
        attacher: attaches outcomes to traces.
        open_spans: the spans that have not ended; without it, every run waits for its whole grace period.
        new_gatherer: creates what collects spans until runs are complete; by default, for this process's.
        new_store: creates what keeps runs if the configuration names no store; by default, nothing is kept.
    """

    def __init__(
        self,
        config: Config,
        dialects: Dialects,
        attacher: Attacher,
        open_spans: OpenSpans | None = None,
        new_gatherer: Callable[[], Gatherer | None] = lambda: None,
        new_store: Callable[[], DurableQueue] = DurableQueue,
    ) -> None:
        self._config = config
        self._open_spans = open_spans
        self._new_gatherer = new_gatherer
        self._new_store = new_store
        self._dialects = dialects
        self._attacher = attacher
        import_module("anyio._backends._asyncio")  # now: a fork while the thread imports it would break it
        self.intake = self.thread = EngineThread[IntakeItem](
            max_bytes=config.max_bytes,
            context=private_context(config.redact, content=config.capture_content),
        )
        self._build()
        if config.store is not None and config.store.exists():
            self.thread.call(self._store.start)  # without waiting for traffic

    def _build(self) -> None:
        """Create what lives on the engine's thread; called again in a forked child."""
        config = self._config
        self.ledger = Ledger(
            [rule.name for rule in config.rules],
            config.explain_traces,
            content=config.capture_content,
            ceiling=config.ceiling,
        )
        self._store = self._new_store() if config.store is None else _sqlite_queue(config)
        self._steps = self.thread.work = Steps(
            config,
            self._dialects,
            self.ledger,
            self._attacher,
            self._store,
            self.thread,
            self._open_spans,
            self._new_gatherer(),
        )
        self.thread.gather = _GATHER_SECONDS_WITH_STORE if self._store.keeps else _GATHER_SECONDS

    def _inspector(self) -> Inspector:
        return Inspector(self._config, self.thread, self.ledger, self._steps)

    @property
    def here(self) -> bool:
        """Return True if the caller is on the engine's thread."""
        return self.thread.here

    @property
    def queue_size(self) -> int:
        """Items in the intake, and evaluations without an outcome."""
        return self.thread.waiting + self.ledger.pending

    def stats(self) -> Stats:
        """All counters at this moment."""
        return self._steps.stats()

    def destination_stats(self) -> Mapping[str, DestinationStats]:
        """Counts of deliveries, by destination."""
        return self._steps.fan_out.stats()

    def failing(self) -> Mapping[str, str]:
        """The rules that fail again and again, each with its problem in words."""
        return self.ledger.failures.failing()

    def explain(self, trace_id: int | str, trace_state: str) -> Explanation:
        """What happened to a trace."""
        return self._inspector().explain(trace_id, trace_state)

    def health(self, stalled_after: float, *, closed: bool) -> Health:
        """Whether scoring makes progress."""
        return self._inspector().health(stalled_after, closed=closed)

    def flush(self, timeout: float) -> bool:
        """Score and deliver what was captured so far; returns whether that was done in time."""
        until = time.monotonic() + timeout
        return self._run(lambda: self._flush(until), timeout + 0.5) is True

    def shutdown(self, deadline: float) -> None:
        """Score and deliver what can be until the deadline, with four fifths of the time for scoring."""
        if not self.here:
            timeout = deadline - time.monotonic()
            scored_until = time.monotonic() + timeout * 0.8
            self._steps.read_until = scored_until + _LATE_SECONDS / 2
            self._run(lambda: self._flush(scored_until, ending=True), timeout * 0.8 + _LATE_SECONDS)
            left = deadline - time.monotonic() + _LATE_SECONDS
            self._run(lambda: self._steps.finish_all(deadline), left)

    def close(self, deadline: float) -> None:
        """End the thread, and the processes of isolated scorers."""
        self.thread.stop(max(_COUNT_SECONDS, deadline - time.monotonic()))
        self._steps.close()

    def _run(self, work: Callable[[], Coroutine[Any, Any, _T]], seconds: float) -> _T | None:
        """Run this on the thread; what goes wrong in it is logged, not raised in the application."""

        async def contained() -> _T | None:
            hide_task()
            try:
                return await work()
            except BaseException as error:
                if must_propagate(error):
                    raise
                tell(_logger, "error in the scoring thread", error=error)
                return None

        return self.thread.run(contained(), seconds)

    async def _flush(self, deadline: float, *, ending: bool = False) -> bool:
        self.thread.drain(self._steps.read_until)
        return await self._steps.flush(deadline, ending=ending)

    def open_traces(self, seconds: float) -> set[str] | None:
        """Ids of the traces whose runs are not decided yet; None if that, or the store, takes too long."""
        return self._run(lambda: self._open_traces(seconds), seconds + 0.5)

    async def _open_traces(self, seconds: float) -> set[str] | None:
        self.thread.drain()
        return await self._steps.open_traces(seconds)

    def losses(self) -> Mapping[str, int]:
        """All losses so far, by what was lost and the reason."""
        return self._steps.losses()

    def use_rules(self, config: Config, seconds: float) -> bool:
        """Judge by the rules of another configuration from now on; whether that was so in time.

        What was sampled ends under the rules that sampled it.
        """

        async def use() -> bool:
            self._steps.use_rules(config)
            self._config = config
            return True

        return self._run(use, seconds) is True

    def before_fork(self) -> None:
        """Have the store close its file."""
        self._store.before_fork()

    def after_fork_in_parent(self) -> None:
        """Have the store resume."""
        self._store.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Reset: what was captured before the fork is the parent's to score."""
        self.thread.after_fork()
        self._steps.rule_sets.disown()
        self._store.after_fork_in_child()
        self._build()


def _sqlite_queue(config: Config) -> DurableQueue:
    from otel_evals._internal.durable_queue.sqlite_queue import SQLiteQueue  # imported only if used

    return SQLiteQueue(config)
