"""The rules of a configuration: each has slots for its scorer and a bounded queue, which no other rule uses.

Used on the engine's thread only.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections import deque
from collections.abc import Callable

from msgspec.structs import replace

from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.engine.pending import Pending, Result, ended_early
from otel_evals._internal.model import Dropped, Outcome, Run, ScorerFailure
from otel_evals._internal.redaction.redactor import private_context
from otel_evals._internal.sampling.decide import Decider
from otel_evals._internal.scorers.kit.isolation import (
    START_SECONDS,
    IsolatedScorer,
    ProcessDiedError,
    most_processes,
)
from otel_evals._internal.scorers.kit.outcome import (
    asked_wait,
    failure_of,
    root_cause,
    steps_of_error,
    to_outcome,
)
from otel_evals._internal.scorers.kit.scorer import Scorer, StepFailure
from otel_evals._internal.util.calls import AbandonedThreads, abandoned_threads, hide_task, in_thread
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.retry import backoff

_logger = logging.getLogger(__name__)
_MAX_ABANDONED = 16
_FIRST_BACKOFF = 1.0
_LONGEST_BACKOFF = 30.0
_AT_ONCE_SECONDS = 0.001
"""How long queued evaluations of a scorer that never waits run before other work gets a turn."""
_CLEANUP_SECONDS = 0.05
"""Seconds after its timeout in which a cancelled scorer may still return a partial result."""


class Rules:
    """The rules of one configuration. A run keeps the rules that it began with."""

    def __init__(self, config: Config, draw: Callable[[], float]) -> None:
        self._context = private_context(config.redact, content=config.capture_content)
        self._queue_size, self._draw = config.limits.queue_size, draw
        self.decider = Decider(config.rules)
        self.scopes = sorted({r.scope for r in config.rules if r.scope != "conversation"}, reverse=True)
        self.queues: dict[str, RuleQueue] = {}
        for rule in config.rules:
            self.add(rule)

    def add(self, rule: Rule) -> RuleQueue:
        queue = self._context.run(RuleQueue, rule, self._queue_size, self._context, self._draw)
        self.queues[rule.name] = queue
        return queue

    @property
    def idle(self) -> bool:
        return all(queue.idle for queue in self.queues.values())

    @property
    def capacity(self) -> int:
        """Number of further runs that every rule can queue. May be read from any thread."""
        queues = tuple(self.queues.values())
        return max(0, min((queue.capacity for queue in queues), default=self._queue_size))

    async def prepare(self) -> None:
        await asyncio.gather(*(queue.prepare() for queue in self.queues.values()))

    def abort(self, reason: str) -> None:
        """Drop all evaluations without an outcome, and all that follow."""
        for queue in self.queues.values():
            queue.abort(reason)


class RuleQueue:
    """A rule's slots, and the evaluations that wait for one.

    Args:
        rule: the scorer and its limits.
        limit: maximum number of evaluations that wait.
        context: for the engine's own work, which must not run in a scorer's context.
        draw: returns random numbers in [0, 1), for the jitter of retries.
    """

    def __init__(
        self, rule: Rule, limit: int, context: contextvars.Context, draw: Callable[[], float]
    ) -> None:
        self.rule, self.facts, self.name = rule, rule.facts, rule.name
        self.scorer, self.timeout, self.slots = rule.scorer, rule.timeout, rule.concurrency
        self.at_once = rule.facts.at_once
        if rule.isolation == "process":
            self.scorer = IsolatedScorer(rule.scorer, rule.facts, rule.timeout)
            self.slots, self.at_once = min(rule.concurrency, most_processes()), False
            self.timeout += START_SECONDS
        self.ready = type(self.scorer).prepare is Scorer.prepare
        """True once the scorer is prepared."""
        self._limit, self._context, self._draw = limit, context, draw
        self.scorer_context = contextvars.copy_context()
        """Copied for each attempt."""
        self.threads = AbandonedThreads(max(40, rule.concurrency))
        self.scorer_context.run(abandoned_threads.set, self.threads)
        self.waiting: deque[Pending] = deque()
        self.running: dict[Pending, None] = {}
        """In the order of their start."""
        self.retrying: set[Pending] = set()
        self.abandoned: set[asyncio.Task[Result]] = set()
        """Attempts that continue after their timeout."""
        self._stopped_for: str | None = None
        self._filling = False
        self._watch_timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        return not (self.waiting or self.running or self.retrying)

    @property
    def capacity(self) -> int:
        """Number of further evaluations that may wait."""
        return self._limit - len(self.waiting) - len(self.retrying)

    # --- called by the coroutine of an evaluation ---

    @property
    def free(self) -> bool:
        """True if an evaluation may start now."""
        return self.ready and not self.waiting and len(self.running) < self.slots

    def join(self, pending: Pending) -> Dropped | None:
        """Queue an evaluation, which is settled with None for a slot; or return why it is dropped."""
        if self._stopped_for is not None:
            return Dropped(reason=self._stopped_for)
        if pending.attempts:  # it ran already: a full queue must not lose its retry
            self.waiting.appendleft(pending)
        elif self.capacity <= 0:
            return Dropped(reason="queue_full")
        elif pending.check is not None:  # the newest first: some verdicts are in time rather than none
            self.waiting.appendleft(pending)
        else:
            self.waiting.append(pending)
        return None

    def start(self, pending: Pending, context: contextvars.Context) -> None:
        """Start an attempt; its evaluation is settled with the result."""
        self.running[pending] = None
        pending.task = asyncio.get_running_loop().create_task(
            _contained(self.scorer, pending.run), context=context
        )
        pending.task.add_done_callback(pending, context=self._context)
        if self._watch_timer is None:
            self._watch()

    def leave(self, pending: Pending) -> None:
        """Free the slot of an attempt, and abandon its task if that is still running."""
        self.running.pop(pending, None)
        if pending.timer is not None:
            pending.timer.cancel()
            pending.timer = None
        task, pending.task = pending.task, None
        if task is not None:
            self.abandoned.add(task)
            task.cancel()

    def outcome_of(self, pending: Pending, result: Result | Dropped) -> Outcome | None:
        """Return the outcome of an attempt; None if another attempt follows."""
        if type(result) is Dropped:
            return result
        if not isinstance(result, BaseException):
            return to_outcome(result, attempts=pending.attempts)
        if pending.timed_out:
            message = f"no score within {self.rule.timeout:g} s"
            failure = ScorerFailure(error_type="timeout", message=message, attempts=pending.attempts)
            return replace(failure, steps=steps_of_error(result))
        cause = root_cause(result)
        if self._retries(pending, cause):
            return None
        pending.error = cause
        return failure_of(result, attempts=pending.attempts)

    def _retries(self, pending: Pending, cause: BaseException) -> bool:
        """Return True if another attempt follows an error, after `retry_after` seconds."""
        if isinstance(cause, ProcessDiedError) and pending.attempts == 1:
            pending.retry_after = 0.0
            return True
        asked = asked_wait(cause)
        if asked is None or pending.attempts >= self.rule.attempts:
            return False
        wait = backoff(pending.attempts, first=_FIRST_BACKOFF, longest=_LONGEST_BACKOFF, draw=self._draw)
        pending.retry_after = max(wait, min(asked, _LONGEST_BACKOFF))
        return True

    def pause(self, pending: Pending) -> None:
        """Let an evaluation wait for its next attempt: it is settled with None, or with an outcome."""
        self.fill()
        pending.paused = time.time_ns()
        self.retrying.add(pending)
        pending.timer = asyncio.get_running_loop().call_later(
            pending.retry_after, self._resume, pending, context=self._context
        )

    def _resume(self, pending: Pending) -> None:
        self.retrying.discard(pending)
        pending.timer = None
        pending.settle()

    def stuck(self) -> ScorerFailure | None:
        """The outcome of an evaluation that cannot start: too many abandoned attempts are still running."""
        if len(self.abandoned) + len(self.threads.calls) < _MAX_ABANDONED + 2 * self.slots:
            return None
        message = "too many earlier attempts were still running, long after their timeout"
        return ScorerFailure(error_type="stuck", message=message)

    # --- the queue ---

    def fill(self) -> None:
        """Give free slots to evaluations that wait. Not recursive: one that ends at once calls this too."""
        if self._filling or not self.ready or not self.waiting:
            return
        self._filling = True
        until = time.monotonic() + _AT_ONCE_SECONDS
        while self.waiting and len(self.running) < self.slots:
            self.waiting.popleft().settle()
            if self.at_once and time.monotonic() > until:
                asyncio.get_running_loop().call_soon(self.fill, context=self._context)
                break
        self._filling = False

    def abort(self, reason: str) -> None:
        """Drop all evaluations that wait or run, and all that follow."""
        self._stopped_for, self.ready = reason, False
        pending = [*self.running, *self.retrying, *self.waiting]
        self.waiting.clear()
        self.retrying.clear()
        for each in pending:
            if each.timer is not None:
                each.timer.cancel()
            each.settle(Dropped(reason=reason))

    async def prepare(self) -> None:
        """Call the scorer's `prepare` on another thread; evaluations wait until it returns."""
        if not self.ready:
            hide_task()
            await in_thread(self._prepare, abandon_on_cancel=True)
            self.ready = self._stopped_for is None
            self.fill()

    def _prepare(self) -> None:
        try:
            self.scorer.prepare()
        except BaseException as error:  # logged here: not every exception can cross threads
            message = "%s failed to prepare"
            log_error(_logger, message, self.rule.scorer_id, error=error, level=logging.WARNING)

    # --- timeouts ---

    def _watch(self) -> None:
        """Cancel overdue attempts. They began in order and share one timeout, so one timer is enough."""
        loop = asyncio.get_running_loop()
        self._watch_timer = None
        now = time.monotonic() + time.get_clock_info("monotonic").resolution  # as the loop sees its timers
        for pending in list(self.running):
            if pending.timed_out:
                continue  # it stays for the time of its cleanup
            left = pending.began + self.timeout - now
            if left > 0:
                self._watch_timer = loop.call_later(left, self._watch, context=self._context)
                return
            if pending.task is not None:
                # A scorer that lacks only its reason may still return a score.
                pending.timed_out = True
                pending.timer = loop.call_later(
                    _CLEANUP_SECONDS, pending.settle, StepFailure("timeout"), context=self._context
                )
                pending.task.cancel()


async def _contained(scorer: Scorer, run: Run) -> Result:
    """Return the result of an attempt; exceptions are values: SystemExit would end the loop."""
    try:
        return await scorer.score(run)
    except asyncio.CancelledError as error:
        return ended_early(steps_of_error(error))
    except BaseException as error:
        return error


def score_at_once(scorer: Scorer, run: Run) -> Result:
    """Return the result of a scorer that never waits; exceptions are values."""
    try:
        return scorer.score_at_once(run)
    except BaseException as error:
        return error
