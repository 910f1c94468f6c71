"""The engine: builds the steps on their thread, and answers requests from other threads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterator, Sequence
from importlib import import_module
from typing import Any, TypeVar

from otel_evals._internal.accounting.explanation import Explanation, explain_logged, explain_unknown
from otel_evals._internal.accounting.health import Health, judge_health
from otel_evals._internal.accounting.ledger import Ledger, LoggedTrace
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.capture.items import IntakeItem
from otel_evals._internal.capture.open_spans import OpenSpans
from otel_evals._internal.config.options import Config
from otel_evals._internal.dialect import Dialects
from otel_evals._internal.evaluate.check import Check
from otel_evals._internal.evaluate.queue_interface import DurableQueue, PassedRun
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals._internal.pipeline.engine_thread import EngineThread
from otel_evals._internal.pipeline.steps import Steps
from otel_evals._internal.redaction.redactor import private_context
from otel_evals._internal.util.calls import hide_task
from otel_evals._internal.util.cancellation import must_propagate
from otel_evals._internal.util.error_log import log_error

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)

_GATHER_SECONDS = 0.005
"""Seconds for which captured items are batched."""
_GATHER_SECONDS_WITH_STORE = 0.002
"""The same with a store, which should receive them soon."""
_LATE_SECONDS = 0.2
"""Extra seconds for a step of the shutdown after its deadline."""
_COUNT_SECONDS = 0.5
"""Minimum seconds for counting unscored runs at the end. Counting is delayed further only by code that blocks
the thread, such as a scorer marked `inline`."""
_LONGEST_BACKOFF = 40.0
"""Upper bound of the seconds between two attempts: the longest backoff of a rule, with jitter."""


class Engine:
    """The engine on a thread of this process.

    Args:
        config: rules, destinations, limits.
        dialects: read spans.
        attacher: attaches outcomes to traces.
        open_spans: the spans that have not ended; without it, every run waits for its whole grace period.
        new_gatherer: creates the gatherer; None is a gatherer for the spans of this process.
        new_store: creates the durable queue if the configuration names no store.
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
        import_module("anyio._backends._asyncio")  # a fork during the thread's own import would break it
        self.intake = self.thread = EngineThread[IntakeItem](
            max_bytes=config.max_bytes,
            context=private_context(config.redact, content=config.capture_content),
        )
        self._build()
        if config.store is not None and config.store.exists():
            self.thread.call(self._store.start)  # without waiting for traffic

    def _build(self) -> None:
        """Create the objects of the engine's thread; called again in a forked child."""
        config = self._config
        self.ledger = Ledger(
            [rule.name for rule in config.rules],
            config.explain_traces,
            content=config.capture_content,
            ceiling=config.ceiling,
        )
        self._store = self._new_store() if config.store is None else _sqlite_queue(config)
        self.steps = self.thread.work = Steps(
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

    @property
    def here(self) -> bool:
        """Return True if the caller is on the engine's thread."""
        return self.thread.here

    @property
    def queue_size(self) -> int:
        """Items in the intake, and evaluations without an outcome."""
        return self.thread.waiting + self.ledger.pending

    def explain(self, trace_id: int | str, trace_state: str) -> Explanation:
        """Explain what happened to a trace, after waiting up to a second for the intake to be emptied."""
        trace, config = trace_id_of(trace_id), self._config
        if self.thread.started and self.thread.waiting:
            self._run(self._drain, 1.0)
        waiting = self.steps.gatherer.waiting(trace)
        logged = self.ledger.trace_log.get(trace)
        if logged is None and not waiting:
            return explain_unknown(trace, config.ceiling, trace_state, tuple(self._possible_reasons()))
        samplers = {rule.name: rule.sampling.words for rule in config.rules}
        running = self.steps.rule_sets.running()
        return explain_logged(trace, logged or LoggedTrace(), samplers, waiting, running)

    def _possible_reasons(self) -> Iterator[str]:
        """Possible reasons for the lack of a record of a trace that sampling did not rule out."""
        yield (
            "Possible reasons: it was not recorded in this process, no dialect claims its spans, "
            "or the application's own sampler did not sample it."
        )
        if refused := self.thread.backlog.refused:
            yield (f"The full intake refused {refused} spans or log records; this trace's may be among them.")
        if len(self.ledger.trace_log) >= self._config.explain_traces:
            yield f"The trace log keeps only the last {len(self.ledger.trace_log)} traces."

    def health(self, stalled_after: float, *, closed: bool) -> Health:
        """Return the health; scoring counts as stalled after this many seconds without progress."""
        now, thread, counters = time.monotonic(), self.thread, self.ledger
        since_beat = None if thread.beat is None else now - thread.beat
        waiting, pending, failing = thread.waiting, counters.pending, self.ledger.failures.failing()
        longest_attempt = max((rule.timeout for rule in self._config.rules), default=0.0)
        status, problem = judge_health(
            closed=closed,
            started=thread.started,
            thread_alive=thread.alive,
            waiting=waiting,
            pending=pending,
            since_beat=since_beat,
            since_progress=now - counters.moved,
            beat_limit=stalled_after,
            progress_limit=longest_attempt + _LONGEST_BACKOFF + stalled_after,
            failing={**failing, **{f"dialect {k}": v for k, v in self._dialects.failing.items()}},
            unstartable=thread.unstartable,
        )
        return Health(
            status=status,
            problem=problem,
            thread_alive=thread.alive,
            waiting=waiting,
            pending=pending,
            last_beat=since_beat,
            last_end=None if counters.last_end is None else now - counters.last_end,
            failing_destinations=self.steps.fan_out.failing(),
            failing_rules=failing,
            content_off=dict(self.ledger.content.off),
            losses=self.steps.losses(),
        )

    def flush(self, timeout: float) -> bool:
        """Score and deliver everything captured so far; returns False after a timeout."""
        if self._is_idle():
            return True
        until = time.monotonic() + timeout
        return self._run(lambda: self._flush(until), timeout + 0.5) is True

    def shutdown(self, deadline: float) -> None:
        """Score and deliver until the deadline, with four fifths of the time for scoring."""
        if not self.here and not self._is_idle():
            timeout = deadline - time.monotonic()
            scored_until = time.monotonic() + timeout * 0.8
            self.steps.read_until = scored_until + _LATE_SECONDS / 2
            self._run(lambda: self._flush(scored_until, ending=True), timeout * 0.8 + _LATE_SECONDS)
            left = deadline - time.monotonic() + _LATE_SECONDS
            self._run(lambda: self.steps.finish_all(deadline), left)

    def start(self) -> None:
        """Start the thread; a shutdown then also shuts the destinations down."""
        self.thread.call(lambda: None)

    def _is_idle(self) -> bool:
        """Return True if the thread has never been needed: some ending interpreters cannot start it."""
        return not self.thread.started and not self.thread.waiting

    def close(self, deadline: float) -> None:
        """End the thread, and the processes of isolated scorers."""
        self.thread.stop(max(_COUNT_SECONDS, deadline - time.monotonic()))
        self.steps.close()

    def _run(self, work: Callable[[], Coroutine[Any, Any, _T]], seconds: float) -> _T | None:
        """Run a coroutine on the thread; errors are logged, not raised in the application."""

        async def contained() -> _T | None:
            hide_task()
            try:
                return await work()
            except BaseException as error:
                if must_propagate(error):
                    raise
                log_error(_logger, "error in the scoring thread", error=error)
                return None

        return self.thread.run(contained(), seconds)

    async def _flush(self, deadline: float, *, ending: bool = False) -> bool:
        self.thread.drain(self.steps.read_until)
        return await self.steps.flush(deadline, ending=ending)

    def check(self, check: Check, seconds: float) -> None:
        """Begin a check, after at most `seconds` for starting the thread; the caller waits by itself."""

        def begin() -> None:
            self.thread.drain()  # spans that ended before the check
            self.steps.check(check)

        self.thread.call(begin, seconds)
        if not self.thread.alive:
            check.expire("shutdown", "scoring has ended in this process")

    def refuse(self, check: Check, reason: str, explanation: str) -> None:
        """Count a check that cannot begin; may be called on any thread."""
        self.ledger.refused(check.rule.name, reason)
        check.expire(reason, explanation)

    def open_traces(self, seconds: float) -> set[str] | None:
        """Return the ids of the traces without a decision; None after a timeout."""

        async def find() -> set[str] | None:
            self.thread.drain()
            return await self.steps.open_traces(seconds)

        return self._run(find, seconds + 0.5)

    def receive(self, runs: Sequence[PassedRun], seconds: float) -> bool:
        """Take runs that other processes passed on, all or none; returns False after a timeout."""

        async def take() -> bool:
            for run in runs:
                self.steps.receive(run)
            return True

        return self._run(take, seconds) is True

    def forget_conversations(self, sources: Collection[Hashable], seconds: float) -> None:
        """Forget the conversations of these sources, which another process gathers now."""

        async def forget() -> None:
            self.steps.forget_conversations(sources)

        self._run(forget, seconds)

    async def _drain(self) -> None:
        self.thread.drain()

    def use_rules(self, config: Config, seconds: float) -> bool:
        """Switch to the rules of another configuration; returns False after a timeout.

        Sampled runs end under the rules that sampled them.
        """

        async def use() -> bool:
            self.steps.use_rules(config)
            self._config = config
            return True

        return self._run(use, seconds) is True

    def before_fork(self) -> None:
        """Close the store's file."""
        self._store.before_fork()

    def after_fork_in_parent(self) -> None:
        """Resume the store."""
        self._store.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        """Reset: the parent scores everything captured before the fork."""
        self.thread.after_fork()
        self.steps.rule_sets.disown()
        self._store.after_fork_in_child()
        self._build()


def _sqlite_queue(config: Config) -> DurableQueue:
    from otel_evals._internal.durable_queue.sqlite_queue import SQLiteQueue  # imported only if used

    return SQLiteQueue(config)


def trace_id_of(trace_id: int | str) -> str:
    """Return a trace id as 32 lower-case hex digits.

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
