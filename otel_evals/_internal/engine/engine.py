"""The engine: scores on a thread of its own, and answers requests of other threads.

An application, the gateway and offline scoring build the same object; they differ in what they put in and in
what takes the scores.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from math import inf
from typing import Any, TypeVar

from otel_evals._internal.accounting.counters import Health, LoggedTrace, judge_health
from otel_evals._internal.accounting.explanation import (
    Explanation,
    explain_logged,
    explain_unknown,
    trace_id_of,
)
from otel_evals._internal.accounting.ledger import MAX_TRACES
from otel_evals._internal.capture.backlog import IntakeLevel
from otel_evals._internal.capture.items import IntakeItem
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.destination import DestinationStats
from otel_evals._internal.engine.check import Check
from otel_evals._internal.engine.stages import Stages
from otel_evals._internal.model import NotScored
from otel_evals._internal.util.calls import must_propagate
from otel_evals._internal.util.error_log import log_error, safely

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)

_LATE_SECONDS = 0.2
"""Extra seconds for a step of the shutdown after its deadline."""
_LONGEST_BACKOFF = 40.0
"""Upper bound of the seconds between two attempts: the longest backoff of a rule, with jitter."""
_COUNT_SECONDS = 0.5
"""Minimum seconds for counting unscored runs at the end."""
_BLOCKED = (
    "a scorer or destination blocks the scoring thread, which did not end in time: runs that were not scored "
    "are lost, and counted only if it goes on; fix: isolation='process', or no `inline`"
)


class Engine(Stages):
    """Scores on a thread of its own, which starts on first use.

    Args:
        config: rules, destinations, limits.
        conventions: read spans.
        attacher: attaches outcomes to traces.
        open_spans: the spans that have not ended, for checks of unfinished runs.
        new_gatherer: creates what assembles traces from items; one for the spans of this process by default.
        source: where the items come from, if it must know which traces are done.
        deliver: takes scored runs instead of the destinations of the configuration.
        known: returns evaluations that were made before.
        queue_size: maximum number of scored runs that wait for a destination.
        clock: the time by which conversations become idle.
    """

    @property
    def here(self) -> bool:
        """Return True if the caller is on the engine's thread."""
        return self.thread.here

    @property
    def queue_size(self) -> int:
        """Items in the intake, and evaluations without an outcome."""
        return self.thread.waiting + self.ledger.pending

    @property
    def intake(self) -> IntakeLevel:
        """The items that wait to be gathered."""
        return self.thread.level

    def capacity(self) -> float:
        """Return how many runs can be taken now without a loss.

        Runs with pending evaluations will need the destinations. One run is taken even if it has more of them
        than fit.
        """
        pending = self.ledger.pending
        queued = self.scorer.capacity
        return min(queued if pending else max(1, queued), self._deliveries.capacity - pending)

    def put_all(self, items: Sequence[IntakeItem]) -> None:
        """Take items that belong together, even beyond the capacity."""
        self.thread.put_all(items)

    def destination_stats(self) -> Mapping[str, DestinationStats]:
        """Return the counts of deliveries, by destination."""
        return self.fan_out.stats()

    def failing_rules(self) -> Mapping[str, str]:
        """Return the rules that fail again and again, each with its error in words."""
        return self.ledger.failures.failing()

    def summary(self) -> str:
        """Return what is scored and where scores go, for a log line."""
        config = self.config
        rules = ", ".join(rule.name for rule in config.rules) or "no rule"
        destinations = ", ".join(self.fan_out.stats()) or "no destination"
        journal = "no journal" if config.journal is None else f"journal {config.journal}"
        return f"scoring by {rules}; scores go to {destinations}; {journal}"

    def health(self, stalled_after: float = 10.0, *, closed: bool = False) -> Health:
        """Return the health; scoring counts as stalled after this many seconds without progress."""
        # Waits for no lock: a signal handler may have interrupted the frame that holds it.
        now, thread, ledger = time.monotonic(), self.thread, self.ledger
        since_beat = None if thread.beat is None else now - thread.beat
        waiting, pending, failing = thread.waiting, ledger.pending, ledger.failures.failing()
        destinations = self.fan_out.failing()
        problems = [f"scores do not reach {name}: it did not accept its last batch" for name in destinations]
        if self.source is not None and self.source.problem is not None:
            problems.append(self.source.problem)
        # Nothing ends during a long attempt and the backoff after it, which is no stall.
        longest_attempt = max((rule.timeout for rule in self.config.rules), default=0.0)
        status, problem = judge_health(
            closed=closed,
            started=thread.started,
            thread_alive=thread.alive or thread.starting,
            waiting=waiting,
            pending=pending,
            since_beat=since_beat,
            since_progress=now - ledger.moved,
            beat_limit=stalled_after,
            progress_limit=longest_attempt + _LONGEST_BACKOFF + stalled_after,
            failing={**failing, **{f"convention {k}": v for k, v in self.conventions.failing.items()}},
            problems=problems,
            unstartable=thread.unstartable,
        )
        return Health(
            status=status,
            problem=problem,
            thread_alive=thread.alive,
            waiting=waiting,
            pending=pending,
            last_beat=since_beat,
            last_end=None if ledger.last_end is None else now - ledger.last_end,
            failing_destinations=destinations,
            failing_rules=failing,
            content_off=dict(ledger.content.off),
            losses=self.losses(),
        )

    def explain(self, trace_id: int | str, trace_state: str = "") -> Explanation:
        """Explain what happened to a trace, after waiting up to a second for the intake to be emptied."""
        trace = trace_id_of(trace_id)
        if self.thread.waiting:
            self.run(self.drained, 1.0)
        waiting = self.gatherer.waiting(trace)
        logged = self.ledger.trace_log.get(trace)
        if logged is None and not waiting:
            return explain_unknown(trace, self.config.ceiling, trace_state, tuple(self._possible_reasons()))
        samplers = {rule.name: rule.sampling.words for rule in self.config.rules}
        queues = self.scorer.queues()
        # Copied in one step: the engine's thread changes it meanwhile.
        running = {(q.name, each.target.run.root_span_id) for q in queues for each in tuple(q.running)}
        return explain_logged(trace, logged or LoggedTrace(), samplers, waiting, running)

    def _possible_reasons(self) -> Iterator[str]:
        """Yield possible reasons for the lack of a record of a trace that sampling did not rule out."""
        yield (
            "Possible reasons: it was not recorded in this process, no convention claims its spans, "
            "or the application's own sampler did not sample it."
        )
        if refused := self.thread.backlog.refused:
            yield f"A full or closed intake refused {refused} spans or log records; this trace's may be one."
        if len(self.ledger.trace_log) >= MAX_TRACES:
            yield f"The trace log keeps only the last {len(self.ledger.trace_log)} traces."

    async def drained(self) -> None:
        """Take everything that was captured before."""
        self.thread.drain()

    def start(self) -> None:
        """Start the thread; a shutdown then also shuts the destinations down."""
        self.thread.call(lambda: None)

    def run(self, work: Callable[[], Coroutine[Any, Any, _T]], seconds: float) -> _T | None:
        """Run a coroutine on the thread; errors are logged, not raised in the application."""

        async def contained() -> _T | None:
            try:
                return await work()
            except BaseException as error:
                if must_propagate(error):
                    raise
                log_error(_logger, "error in the scoring thread", error=error)
                return None

        return self.thread.run(contained(), seconds)

    def check(self, check: Check, seconds: float) -> None:
        """Begin a check, after at most `seconds` for starting the thread; the caller waits by itself."""
        self.thread.call(lambda: self._check(check), seconds)
        # Nothing would run the check, and the caller would wait until its deadline.
        if not self.thread.alive:
            check.expire("shutdown", "scoring has ended in this process")

    def refuse(self, check: Check, reason: str, explanation: str) -> None:
        """Count a check that cannot begin, and give its verdict."""
        check.expire(reason, explanation)
        self.thread.call(lambda: self.ledger.refused(check.rule.name, reason))

    def _check(self, check: Check) -> None:
        self.thread.drain()  # spans that ended before the check
        reason, why = "unreadable", "the run could not be read; the log has the error"
        try:
            run = self._unfinished_runs.find(check.place, check.answer)
            if isinstance(run, NotScored):
                reason, why = run.reason, run.explanation or ""
            elif self.scorer.check(check, run):
                return
            else:
                reason, why = "other_version", "a rule has this scorer's id and another version"
        except BaseException as error:
            log_error(_logger, "an answer could not be checked", error=error)
        # Reached only if no evaluation has begun: otherwise its end gives the verdict.
        check.expire(reason, why)
        self.ledger.refused(check.rule.name, reason)

    def use_rules(self, config: Config, seconds: float) -> bool:
        """Switch to the rules of another configuration; returns False after a timeout."""

        async def use() -> bool:
            self.ledger.add_rules(rule.name for rule in config.rules)
            self.conversations.use_rules(config.rules)
            if config.ceiling > self.config.ceiling:
                self.ignore_runs_before(time.time_ns(), self.config.ceiling)
            self.scorer.use(config)
            self.config = config
            if self._attacher.metrics is not None:
                scales = {rule.name: rule.facts.scale for rule in config.rules}
                self._attacher.metrics.estimates.scales.update(scales)
            # Kept, because the loop has only weak references to tasks.
            self._preparing = asyncio.ensure_future(self.scorer.rules.prepare())
            return True

        return self.run(use, seconds) is True

    def ignore_runs_before(self, time_ns: int, ceiling: float = 0.0) -> None:
        """Count runs that began before a time, instead of scoring them: some of their spans are lacking.

        Runs that were sampled with a probability of `ceiling` are whole.
        """
        # Another thread calls this: the list is replaced, since the engine's may iterate over it.
        self._raised = [*self._raised, (time_ns, ceiling)][-16:]

    def flush(self, timeout: float, *, ending: bool = False) -> bool:
        """Score and deliver everything captured so far; returns False after a timeout.

        With `ending`, conversations that are not idle yet are scored too.
        """
        if self._is_unused:
            return True
        until = time.monotonic() + timeout
        return self.run(lambda: self._flush(until, ending=ending), timeout + 0.5) is True

    async def _flush(self, deadline: float, *, ending: bool = False) -> bool:
        self.thread.drain(self._read_until)
        rounds, done = 1 + ending, True  # the last one is for runs that end during the first
        while rounds and done:
            # Infinity closes every run whose root has ended, without waiting for its grace period.
            self._score_due(inf)
            done = await self.scorer.settled(deadline - time.monotonic())
            while ending and done and self.conversations.waiting:
                # In rounds within the capacity: the queues would drop what exceeds it.
                self._score_conversations(self.conversations.due(inf, self.scorer.capacity))
                done = await self.scorer.settled(deadline - time.monotonic())
            self._attacher.release_metrics()
            done = await self._deliveries.flush(deadline - time.monotonic()) and done
            # A gatherer closes only as many runs as fit in the queues; traffic may go on for ever.
            rounds -= not (ending and self.gatherer.waits)
        if self._left is not None:
            self._left.poll(pause=0.0)  # the process may end without a further moment
        return done

    def shutdown(self, deadline: float) -> None:
        """Score and deliver until the deadline, with four fifths of the time for scoring."""
        if not self.here and not self._is_unused:
            timeout = deadline - time.monotonic()
            scored_until = time.monotonic() + timeout * 0.8
            # Reading never awaits: no timeout can interrupt it, and it has to stop by itself.
            self._read_until = scored_until + _LATE_SECONDS / 2
            self.run(lambda: self._flush(scored_until, ending=True), timeout * 0.8 + _LATE_SECONDS)
            self.finish(deadline)

    def finish(self, deadline: float) -> None:
        """Drop unfinished evaluations, and release the destinations."""
        self.run(lambda: self._finish(deadline), deadline - time.monotonic() + _LATE_SECONDS)

    async def _finish(self, deadline: float) -> None:
        self._drop_all()
        await self._deliveries.shutdown(deadline - time.monotonic())

    @property
    def _is_unused(self) -> bool:
        """True if the thread has never been needed: some ending interpreters cannot start it."""
        return not self.thread.started and not self.thread.waiting

    def close(self, deadline: float) -> None:
        """End the thread."""
        # Even after the deadline, unscored runs have to be counted.
        self.thread.stop(max(_COUNT_SECONDS, deadline - time.monotonic()))
        if not (self._ended or self.here):
            _logger.warning(_BLOCKED)
        safely(lambda: self._losses.close(self.losses()), "a log could not be closed")

    def after_fork_in_child(self) -> None:
        """Reset: the parent scores everything captured before the fork."""
        self.thread.reset()
        self._build()
