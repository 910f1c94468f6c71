"""A rule's queue: evaluations wait for a slot, run their attempts, and end with an outcome.

An evaluation is a coroutine without a task. Whatever it waits for is settled once, by a value: a free slot,
the result of an attempt, the end of a pause, or the reason why it is dropped. That costs a fifth of a task,
and shutdown needs no cancellation.

Two rules keep this correct. Only the engine's own coroutines are driven like this: outside a task,
`asyncio.timeout`, anyio's scopes and context tokens bind to the wrong task, so scorers run in one. And these
coroutines have no `finally` and no `async with`: a forked child or an ending interpreter collects them, and
would run these blocks in the wrong process.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

import msgspec
from msgspec.structs import replace

from otel_evals._internal.attach.attacher import Attacher, Opened
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.engine.attempt import Target, paid_steps, timeout_of, wait_before_retry, with_paid
from otel_evals._internal.engine.check import Check, CheckedRun
from otel_evals._internal.model import Dropped, Outcome, Run, Sampled, ScorerFailure, StepRecord
from otel_evals._internal.sampling.decide import RunDecisions
from otel_evals._internal.scorers.kit.isolation import START_SECONDS, IsolatedScorer, most_processes
from otel_evals._internal.scorers.kit.outcome import failure_of, root_cause
from otel_evals._internal.scorers.kit.scorer import (
    Result,
    Scorer,
    StepFailure,
    attempted,
    attempted_at_once,
    ended_early,
)
from otel_evals._internal.util.calls import AbandonedThreads, abandoned_threads, in_thread
from otel_evals._internal.util.error_log import log_error, safely

_logger = logging.getLogger(__name__)
_MAX_ABANDONED = 16
_AT_ONCE_SECONDS = 0.001
"""How long queued evaluations of a scorer that never waits run before other work gets a turn."""
_CLEANUP_SECONDS = 0.05
"""Seconds after its timeout in which a cancelled scorer may still return a partial result."""

_STUCK_WORDS = "too many earlier attempts were still running, long after their timeout"
_STUCK = ScorerFailure(error_type="stuck", message=_STUCK_WORDS)


@types.coroutine
def _settled() -> Generator[None, Any, Any]:
    """Wait until `Pending.settle` is called; returns its value."""
    return (yield)


class Pending(msgspec.Struct, eq=False):
    """An evaluation without an outcome, and the coroutine that waits for it."""

    queue: RuleQueue
    target: Target
    run: Run
    decisions: RunDecisions
    sampled: Sampled
    evaluation_id: str
    revision: int
    check: tuple[Check, CheckedRun] | None = None
    ended: Callable[[Pending, Outcome], object] | None = None
    """Called with the outcome."""
    opened: Opened | None = None
    attempts: int = 0
    began: float = 0.0
    """Start of the last attempt in `time.monotonic` seconds; 0 before the first."""
    paused: int | None = None
    """End of an attempt without an outcome, in nanoseconds since the Unix epoch; None during an attempt."""
    retry_after: float = 0.0
    """Seconds to wait before the next attempt."""
    paid: tuple[StepRecord, ...] = ()
    """Steps of failed attempts for which a judge was paid: their cost is a part of the outcome's."""
    timed_out: bool = False
    error: BaseException | None = None
    """The exception of the last attempt, for the log."""
    task: asyncio.Task[Result] | None = None
    timer: asyncio.TimerHandle | None = None
    coroutine: Coroutine[Any, Any, Outcome] | None = None
    """The coroutine, while it waits."""

    def start(self, ended: Callable[[Pending, Outcome], object]) -> None:
        """Start the evaluation, which may end before this returns."""
        self.ended = ended
        self.coroutine = self.queue.evaluate(self)
        self.settle()

    def settle(self, value: Any = None) -> None:
        """Continue the coroutine with a value until it waits or ends; only the first value counts."""
        coroutine, self.coroutine = self.coroutine, None  # a second value finds none
        if coroutine is None:
            return
        try:
            try:
                coroutine.send(value)
            except StopIteration as end:
                if self.ended is not None:
                    self.ended(self, end.value)
                if self.queue.waiting:
                    self.queue.fill()
            else:
                self.coroutine = coroutine
        except Exception as error:
            log_error(_logger, "error in the engine", error=error)

    def __call__(self, task: asyncio.Task[Result]) -> None:
        """Take the result of an attempt's task, as its done callback.

        Only a callback also sees tasks that were cancelled before their first step.
        """
        if self.task is task:
            self.task = None
            self.settle(ended_early() if task.cancelled() else task.result())
        else:
            self.queue.abandoned.discard(task)


class RuleQueue:
    """A rule's slots, and the evaluations that wait for one; no other rule uses them.

    At most `limit` evaluations wait. The engine's own work runs in `context`, not in a scorer's.
    """

    def __init__(self, rule: Rule, limit: int, attacher: Attacher, context: contextvars.Context) -> None:
        self.rule, self.facts, self.name, self.scorer = rule, rule.facts, rule.name, rule.scorer
        self._attacher, self._limit, self._context = attacher, limit, context
        self._timeout, self._slots, self._at_once = rule.timeout, rule.concurrency, rule.facts.at_once
        if rule.isolation == "process":
            self.scorer = IsolatedScorer(rule.scorer, rule.facts, rule.timeout)
            self._slots, self._at_once = min(rule.concurrency, most_processes()), False
            self._timeout += START_SECONDS  # its process may have to start first
        self._ready = type(self.scorer).prepare is Scorer.prepare
        """True once the scorer is prepared."""
        self._scorer_context = contextvars.copy_context()
        """Copied for each attempt."""
        self._threads = AbandonedThreads(max(40, rule.concurrency))
        self._scorer_context.run(abandoned_threads.set, self._threads)
        self.waiting: deque[Pending] = deque()
        self.running: dict[Pending, None] = {}
        """In the order of their start."""
        self._retrying: set[Pending] = set()
        self.abandoned: set[asyncio.Task[Result]] = set()
        """Attempts that continue after their timeout."""
        self._stopped_for: str | None = None
        self._filling = False
        self._watch_timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        return not (self.waiting or self.running or self._retrying)

    @property
    def capacity(self) -> int:
        """Number of further evaluations that may wait."""
        return self._limit - len(self.waiting) - len(self._retrying)

    async def evaluate(self, pending: Pending) -> Outcome:
        """Wait for a slot, and make attempts until there is an outcome."""
        outcome: Outcome | None = None
        while outcome is None:
            if self.waiting or not self._ready or len(self.running) >= self._slots:
                outcome = self._join(pending) or await _settled()
            left = len(self.abandoned) + len(self._threads.calls)
            if outcome is None and left >= _MAX_ABANDONED + 2 * self._slots:
                outcome = _STUCK  # no more are started: each keeps a thread or a task
            if outcome is not None:
                break
            opened = self._open(pending)
            if self._at_once:
                result = opened.context.run(attempted_at_once, self.scorer, pending.run)
            else:
                self._start(pending, opened.context)
                result = await _settled()
                self._leave(pending)
            outcome = self._outcome_of(pending, result)
            if outcome is None:
                self._pause(pending)
                outcome = await _settled()
        if isinstance(outcome, ScorerFailure):
            outcome = replace(outcome, attempts=pending.attempts or 1)
        return with_paid(outcome, pending.paid) if pending.paid else outcome

    def _join(self, pending: Pending) -> Dropped | None:
        """Queue an evaluation, which is settled with None for a slot; or return why it is dropped."""
        if self._stopped_for is not None:
            return Dropped(reason=self._stopped_for)
        if not pending.attempts and self.capacity <= 0:  # a full queue must not lose a retry
            return Dropped(reason="queue_full")
        if pending.attempts or pending.check is not None:
            self.waiting.appendleft(pending)  # the newest check first: some verdicts are in time
        else:
            self.waiting.append(pending)
        return None

    def _open(self, pending: Pending) -> Opened:
        """Open an attempt: its evaluation span, and the context of its scorer."""
        if pending.opened is not None:
            self._attacher.retry(pending.opened, pending.paused)
        run = pending.run
        pending.attempts += 1
        pending.began, pending.paused = time.monotonic(), None
        span_id = pending.target.run.root_span_id if pending.check is None else pending.check[0].span_id(run)
        context = self._scorer_context.copy()
        opened = self._attacher.open(run, span_id, self.name, self.facts.id, time.time_ns(), context)
        pending.opened = opened
        return opened

    def _start(self, pending: Pending, context: contextvars.Context) -> None:
        """Start an attempt; its evaluation is settled with the result."""
        self.running[pending] = None
        attempt = attempted(self.scorer, pending.run)
        pending.task = asyncio.get_running_loop().create_task(attempt, context=context)
        pending.task.add_done_callback(pending, context=self._context)
        if self._watch_timer is None:
            self._watch()

    def _leave(self, pending: Pending) -> None:
        """Free the slot of an attempt, and abandon its task if that is still running."""
        self.running.pop(pending, None)
        if pending.timer is not None:
            pending.timer.cancel()
            pending.timer = None
        task, pending.task = pending.task, None
        if task is not None:
            self.abandoned.add(task)  # counted in `evaluate` until it ends
            task.cancel()

    def _outcome_of(self, pending: Pending, result: Result | Dropped) -> Outcome | None:
        """Return the outcome of an attempt; None if another attempt follows."""
        if not isinstance(result, BaseException):  # one that `abort` drops, too
            return result
        if pending.timed_out:
            return timeout_of(self.rule, result)
        cause = root_cause(result)
        wait = wait_before_retry(self.rule, pending.attempts, cause)
        if wait is None:
            pending.error = cause
            return failure_of(result)
        pending.retry_after, pending.paid = wait, pending.paid + paid_steps(result)
        return None

    def _pause(self, pending: Pending) -> None:
        """Let an evaluation wait for its next attempt: it is settled with None, or with an outcome."""
        self.fill()  # its slot is free during the pause
        pending.paused = time.time_ns()
        self._retrying.add(pending)
        self._call_later(pending, pending.retry_after, self._resume, pending)

    def _resume(self, pending: Pending) -> None:
        self._retrying.discard(pending)
        pending.timer = None
        pending.settle()

    def fill(self) -> None:
        """Give free slots to evaluations that wait. Not recursive: one that ends at once calls this too."""
        if self._filling or not self._ready or not self.waiting:
            return
        self._filling = True
        until = time.monotonic() + _AT_ONCE_SECONDS
        while self.waiting and len(self.running) < self._slots:
            self.waiting.popleft().settle()  # its coroutine takes the slot
            if self._at_once and time.monotonic() > until:
                asyncio.get_running_loop().call_soon(self.fill, context=self._context)
                break
        self._filling = False

    def abort(self, reason: str) -> None:
        """Drop all evaluations that wait or run, and all that follow."""
        self._stopped_for, self._ready = reason, False
        left = [*self.running, *self._retrying, *self.waiting]  # settling changes them
        self.waiting.clear()
        self._retrying.clear()
        for pending in left:
            if pending.timer is not None:
                pending.timer.cancel()
            pending.settle(Dropped(reason=reason))

    async def prepare(self) -> None:
        """Call the scorer's `prepare` on another thread; evaluations wait until it returns."""
        if not self._ready:
            # Logged on that thread: not every exception can cross threads.
            problem = f"{self.rule.scorer_id} failed to prepare"
            await in_thread(lambda: safely(self.scorer.prepare, problem), abandon_on_cancel=True)
            self._ready = self._stopped_for is None  # `abort` may have come meanwhile
            self.fill()

    def _watch(self) -> None:
        """Cancel overdue attempts. They began in order and share one timeout, so one timer is enough."""
        self._watch_timer = None
        now = time.monotonic() + time.get_clock_info("monotonic").resolution  # as the loop sees its timers
        for pending in list(self.running):
            if pending.timed_out:
                continue  # it stays for the time of its cleanup
            left = pending.began + self._timeout - now
            if left > 0:
                loop = asyncio.get_running_loop()
                self._watch_timer = loop.call_later(left, self._watch, context=self._context)
                return
            if pending.task is not None:
                # A scorer that lacks only its reason may still return a score.
                pending.timed_out = True
                self._call_later(pending, _CLEANUP_SECONDS, pending.settle, StepFailure("timeout"))
                pending.task.cancel()  # a scorer may refuse: the timer settles it anyway

    def _call_later(self, pending: Pending, seconds: float, call: Callable[..., None], value: Any) -> None:
        loop = asyncio.get_running_loop()
        pending.timer = loop.call_later(seconds, call, value, context=self._context)
