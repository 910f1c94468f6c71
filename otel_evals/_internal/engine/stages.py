"""The stages, connected: captured items -> spans -> runs -> scores -> attachments -> destinations.

Each stage returns its output, and `Stages` hands it to the next one, all on the engine's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from math import inf
from operator import attrgetter

from anyio.to_thread import current_default_thread_limiter

from otel_evals._internal.accounting.counters import ConversationStats, Stats
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.accounting.problem_log import LossLog
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.capture.items import IntakeItem, OpenSpans
from otel_evals._internal.config.options import Config
from otel_evals._internal.engine.attempt import Known, Target
from otel_evals._internal.engine.conversations import Conversations, DueConversation
from otel_evals._internal.engine.outlets import Deliveries, losses_of
from otel_evals._internal.engine.score import RunScorer
from otel_evals._internal.engine.source import Source, Unfinished
from otel_evals._internal.engine.thread import EngineThread
from otel_evals._internal.engine.unfinished_runs import UnfinishedRuns
from otel_evals._internal.gather.closing import AssemblyLimits
from otel_evals._internal.gather.gatherer import Gatherer
from otel_evals._internal.gather.trace import SpanGroup
from otel_evals._internal.gather.traces import LiveClosing
from otel_evals._internal.model import Loss, Run, ScoredRun
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.model.runs import SIZE
from otel_evals._internal.read.runs import find_runs, group_of
from otel_evals._internal.read.split_runs import SplitRuns
from otel_evals._internal.redaction.redactor import private_context
from otel_evals._internal.sampling.consistent import is_sampled
from otel_evals._internal.util.error_log import log_error

_logger = logging.getLogger(__name__)

_TICK_SECONDS = 1.0
_LOCK_SECONDS = 0.002
"""Seconds after which the GIL is given up: other threads would wait for the switch interval, 5 ms."""
_SPAN_ID = attrgetter("run.root_span_id")


class Stages:
    """The stages of scoring, connected; see `Engine` for the arguments. Called on the engine's thread."""

    def __init__(
        self,
        config: Config,
        conventions: Conventions,
        attacher: Attacher,
        *,
        open_spans: OpenSpans | None = None,
        new_gatherer: Callable[[], Gatherer] | None = None,
        source: Source | None = None,
        deliver: Callable[[ScoredRun], object] | None = None,
        known: Known | None = None,
        queue_size: int = 2048,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config, self.conventions, self._attacher = config, conventions, attacher
        self._open_spans = open_spans or OpenSpans()
        self._new_gatherer = new_gatherer
        self.source, self._deliver_to, self._known = source, deliver, known
        self._queue_size, self._clock = queue_size, clock
        import_module("anyio._backends._asyncio")  # a fork during the thread's own import would break it
        context = private_context(config.redact, content=config.capture_content)
        self.thread = EngineThread(self, max_bytes=config.limits.max_bytes, context=context)
        self._build()

    def _build(self) -> None:
        """Create the objects of the engine's thread; called again in a forked child."""
        config = self.config
        names = [rule.name for rule in config.rules]
        content, ceiling = config.capture_content, config.ceiling
        self.ledger = Ledger(names, content=content, ceiling=ceiling)
        if self._new_gatherer is None:
            limits = assembly_limits(config)
            self.gatherer = Gatherer(limits, LiveClosing(limits, self._open_spans))
        else:
            self.gatherer = self._new_gatherer()
        self._split_runs = SplitRuns(max_bytes=config.limits.max_bytes)
        self._yielded = 0.0
        self._read_until = inf
        """From this time of `time.monotonic`, runs are counted but not read; set from any thread."""
        self._unfinished_runs = UnfinishedRuns(
            self._open_spans, self.gatherer, self.conventions, self._split_runs.joined
        )
        self._left: Unfinished | None = None
        """What is left to do for the source's traces."""
        # Without a source, nothing calls `take_left`, and the ids would pile up.
        self.gatherer.reports_left = self.source is not None
        if self.source is not None:
            # Items that wait in the deque count as put: a trace is done only after they are taken.
            given = lambda: self.thread.taken + self.thread.waiting  # noqa: E731
            self._left = Unfinished(self.source, self._is_gathering, given, time.monotonic)
        self._deliveries = Deliveries(config, self.ledger, self._left, self._queue_size, self._deliver_to)
        self.fan_out = self._deliveries.fan_out
        takes = config.destinations or self._deliver_to is not None or self._left is not None
        put = self._deliveries.put if takes else None
        self.scorer = RunScorer(config, self.ledger, self._attacher, put, self._known)
        waits = (lambda *_: None) if self._left is None else self._left.waits
        self.conversations = Conversations(config, self.ledger, waits)
        self._raised: list[tuple[int, float]] = []
        """Time of each increase of the highest sampling probability, and the probability before it."""
        self.resumed: set[str] = set()
        """Ids of the roots of runs from a journal, until these are scored: they are whole."""
        self._losses = LossLog()
        self._ended = False
        """True once all unfinished work was counted."""

    # --- counts, read from any thread ---

    def stats(self) -> Stats:
        """Return all counters at this moment."""
        stats = self.ledger.stats(self.thread.backlog.losses)
        if waiting := self.conversations.waiting:
            stats = replace(stats, conversations=ConversationStats(waiting=waiting))
        return stats

    def losses(self) -> dict[str, int]:
        """Return everything that was lost, by what and why."""
        return losses_of(self.stats(), self.fan_out.stats())

    # --- from items to scores ---

    def take(self, items: Sequence[IntakeItem]) -> float:
        """Take captured items and do all due work; returns the time of the next `tick`."""
        self._lose(self.gatherer.add(items, time.monotonic()))
        return self.tick()

    def tick(self) -> float:
        """Do all due work; returns the time of the next call, in `time.monotonic` seconds."""
        now, gatherer = time.monotonic(), self.gatherer
        # Before the eviction: a run that is complete is scored, not evicted.
        self._score_due(now)
        if gatherer.next_eviction <= now:
            self._lose(gatherer.evict_old(now))
        next_conversation = inf
        if self.conversations.active:
            self._score_conversations(self.conversations.due(self._clock(), self.scorer.capacity))
            next_conversation = self.conversations.next_due(self._clock())
        if self._losses.next_poll <= now:
            self._losses.poll(self.losses())
        if self._left is not None:
            self._left.touch(gatherer.take_left())
            self._left.poll(self.thread.taken)
        next_run = min(gatherer.next_close, gatherer.next_eviction, self._split_runs.next_due)
        # The last bound is for the source's traces: their pause has no due time here.
        return min(next_run, next_conversation, now + _TICK_SECONDS)

    def _score_due(self, now: float) -> None:
        """Score the runs that are complete."""
        groups = self.gatherer.close_due(now) if self.gatherer.next_close <= now else []
        for group in groups:
            # Asked for each group: reading a long backlog may outlast a shutdown.
            if time.monotonic() < self._read_until:
                self._score_group(*self._read(group))
                if time.monotonic() - self._yielded > _LOCK_SECONDS:
                    time.sleep(0)  # releases the GIL
                    self._yielded = time.monotonic()
            else:
                self.ledger.lost(_undecided(group.spans[0].trace_id))
        uncontinued = self._split_runs.due(now) if self._split_runs.next_due <= now else []
        # Their traces closed earlier: a new group has their spans, which are held and have to be released.
        for run in uncontinued:
            self._score_group([run], group_of([run]))

    def _read(self, group: SpanGroup) -> tuple[list[Run], SpanGroup]:
        """Read the runs in a group of spans, and join them with those that they continue. Never raises."""
        trace_id = group.spans[0].trace_id
        try:
            read = find_runs(group.spans, self.conventions, group.links)
        except BaseException as error:
            log_error(_logger, "a run could not be read", error=error)
            self.ledger.lost(Loss("run", "unreadable", trace_id))
            return [], group
        self.ledger.trace_log.assembled(trace_id, len(group.spans), read)
        # The size of the spans is the run's only if the run consists of all of them.
        if len(read) == 1 and group.size and len(read[0].operations) == len(group.spans):
            read[0].__dict__[SIZE] = group.size  # measured when the spans arrived
        if not read:
            self.ledger.lost(Loss("run", "nothing_to_judge", trace_id))
        runs: list[Run] = []
        for run in read:
            runs += self._split_runs.add(run, time.monotonic())
        # Spans of joined runs that closed earlier are held too.
        return runs, group if runs == read else group_of(runs, group)

    def _is_gathering(self, trace_id: str) -> bool:
        """Return True if a trace has spans whose run was not scored yet."""
        return self.gatherer.is_open(trace_id) or trace_id in self._split_runs.open_traces

    def _score_group(self, runs: Sequence[Run], group: SpanGroup) -> None:
        """Score runs, and release every held span that is neither judged nor part of an unfinished run."""
        judged: set[str] = set()
        for run in runs:
            judged.update(map(_SPAN_ID, self.score(run, group)))
        if (scores := self._attacher.scores) is not None:
            awaited = judged | self._split_runs.held
            for span in group.spans:
                if span.span_id not in awaited:
                    scores.release(span.trace_id, span.span_id)
        if self._left is not None:  # of joined runs, some traces have closed earlier
            self._left.touch({span.trace_id for span in group.spans})

    def score(self, run: Run, group: SpanGroup | None = None) -> list[Target]:
        """Score a run; returns what is judged in it. Its `group` of spans is kept by the source."""
        if not run.trace_flags & 1:
            self.ledger.lost(Loss("run", "trace_not_sampled", run.trace_id))
            return []
        # Before the rules of runs: a run that none of them samples is still a turn.
        if self.conversations.active:
            self._score_conversations(self.conversations.take(run, self._clock()))
        # Capture left out spans that no rule could sample then: such a run may lack some.
        for when, ceiling in () if run.root_span_id in self.resumed else self._raised:
            if run.start_time >= when or time.time_ns() < when:  # later, or the clock was set back since
                continue
            if not is_sampled(ceiling, int(run.trace_id, 16), run.trace_state):
                self.ledger.lost(Loss("run", "began_before_reload", run.trace_id))
                return []
        self.resumed.discard(run.root_span_id)
        keep = None if self._left is None else partial(self._keep, self._left, run, group)
        return self.scorer.score(run, keep)

    def _keep(self, left: Unfinished, run: Run, group: SpanGroup | None, sampled: Sequence[Target]) -> None:
        """Have the source keep a run that is sampled, or that waits for its conversation."""
        conversations = self.conversations
        waits = conversations.active and run.conversation_id and not conversations.rules_out(run)
        if sampled or waits:
            kept = left.source.sampled(group or group_of([run]))
            self.ledger.not_kept += not kept
            for target in sampled:
                target.kept = kept
        left.sampled(sampled)

    def _score_conversations(self, due: Sequence[DueConversation]) -> None:
        for each in due:
            sampled = self.scorer.decide_conversation(each)
            if self._left is not None:
                self._left.sampled(sampled)
            self.scorer.start(sampled, each.lost)

    def _lose(self, losses: Sequence[Loss]) -> None:
        for loss in losses:
            self.ledger.lost(loss)

    # --- background, flush, end ---

    async def background(self) -> None:
        """Prepare the scorers and deliver to destinations, until cancelled."""
        limiter = current_default_thread_limiter()
        # anyio's limit is one for all callers: no rule may wait for threads that another occupies.
        limiter.total_tokens = max(limiter.total_tokens, sum(r.concurrency for r in self.config.rules))
        await asyncio.gather(self.scorer.rules.prepare(), self._deliveries.run())

    def end(self, items: Sequence[IntakeItem]) -> None:
        """Drop and count all unfinished work, with or without an earlier `_finish`."""
        self._drop_all()
        self._attacher.release_metrics()
        if self._left is not None:
            # Before the gatherer forgets its open traces, which must not be reported as done.
            self._left.touch(self.gatherer.take_left())
            self._left.poll(pause=0.0)  # no further span comes
        self._lose(self.gatherer.end(items))
        self._lose([_undecided(run.trace_id) for run in self._split_runs.flush()])
        self._ended = True

    def _drop_all(self) -> None:
        if self._left is not None:
            # First: runs that are dropped below are not done, but left to the next process.
            self._left.dropping = True
        for queue in self.scorer.queues():
            queue.abort("shutdown")
        self._score_conversations(self.conversations.end())


def assembly_limits(config: Config) -> AssemblyLimits:
    """Return the assembly bounds of a configuration."""
    return AssemblyLimits(
        grace=config.grace,
        max_age=config.limits.max_age,
        max_traces=config.limits.max_open_traces,
        max_spans_per_trace=config.limits.max_spans_per_trace,
        max_bytes=config.limits.max_bytes,
    )


def _undecided(trace_id: str) -> Loss:
    return Loss("run", "undecided_at_shutdown", trace_id)
