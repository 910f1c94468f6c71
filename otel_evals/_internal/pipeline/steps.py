"""The steps, wired: captured items -> spans -> runs -> decisions -> scores -> attachments -> destinations.

Each step returns its output, and `Steps` hands it to the next one, all on the engine's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import inf

from anyio.to_thread import current_default_thread_limiter

from otel_evals._internal.accounting.counters import ConversationStats, Stats
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.accounting.problem_log import LossLog
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.capture.items import IntakeItem
from otel_evals._internal.capture.open_spans import OpenSpans
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.delivery_queue import Delivered, taken_from
from otel_evals._internal.deliver.destination import DestinationStats
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.dialect import Dialects
from otel_evals._internal.evaluate.check import Check
from otel_evals._internal.evaluate.conversation_gatherer import ConversationGatherer, JoinedConversation
from otel_evals._internal.evaluate.evaluator import Evaluator
from otel_evals._internal.evaluate.queue_interface import DurableQueue, PassedRun, QueueParts, Recovered
from otel_evals._internal.evaluate.rule_sets import RuleSets
from otel_evals._internal.gather.gatherer import AssemblyLimits, Gatherer, SpanGroup
from otel_evals._internal.gather.local_gatherer import LocalGatherer
from otel_evals._internal.model import Loss, NotScored, Run
from otel_evals._internal.pipeline.engine_thread import EngineThread
from otel_evals._internal.pipeline.under_way import RunsUnderWay
from otel_evals._internal.read.reader import RunReader, group_of
from otel_evals._internal.read.split_runs import SplitRuns
from otel_evals._internal.util.calls import KEEPS_THREADS, hide_task
from otel_evals._internal.util.error_log import log_error

_logger = logging.getLogger(__name__)
_TICK_SECONDS = 1.0
_LOCK_SECONDS = 0.002
_PICKS_SECONDS = 30.0
"""Seconds between two reports of how many runs each rule picked."""
_NOT_A_LOSS = {"trace_not_sampled", "nothing_to_judge"}


class Steps:
    """The steps of one process, called by the engine's thread; see `Engine` for the arguments."""

    def __init__(
        self,
        config: Config,
        dialects: Dialects,
        ledger: Ledger,
        attacher: Attacher,
        store: DurableQueue,
        thread: EngineThread[IntakeItem],
        open_spans: OpenSpans | None = None,
        gatherer: Gatherer | None = None,
    ) -> None:
        self._ledger = ledger
        self._attacher = attacher
        self._store = store
        self._thread = thread
        self._reader = RunReader(dialects, ledger)
        self._concurrency = sum(rule.concurrency for rule in config.rules)
        local = LocalGatherer(
            assembly_limits(config),
            report_ended=store.keeps,
            open_spans=None if open_spans is None else lambda: open_spans.now(lambda: thread.waiting),
        )
        self.gatherer = gatherer or local
        self._split_runs = SplitRuns(max_bytes=config.max_bytes)
        joined = self._split_runs.joined
        self._under_way = RunsUnderWay(open_spans or OpenSpans(), local, dialects, joined)
        self._check_age = config.max_age
        self.read_until = inf
        """From this time of `time.monotonic`, runs are counted but not read; set from any thread."""
        self._offered = 0.0
        self.conversations = ConversationGatherer(config, ledger, store)
        self._delivered: asyncio.Queue[Delivered] = asyncio.Queue()
        self.fan_out = FanOut(config.destinations, max_bytes=config.max_bytes, results=self._delivered)
        deliver = self.fan_out.put if config.destinations else None
        fixed = ledger, attacher, deliver, store, asyncio.Event()
        self.rule_sets = RuleSets(config, lambda now: Evaluator(now, *fixed))
        self._loss_log = LossLog()
        read = self._reader.read_again
        store.open(QueueParts(self.rule_sets, self.fan_out, ledger, read, self._post))

    @property
    def evaluator(self) -> Evaluator:
        return self.rule_sets.current

    # --- called by the engine's thread ---

    def take(self, items: Sequence[IntakeItem]) -> float:
        """Take captured items and do all due work; returns the time of the next `tick`."""
        gathered = self.gatherer.add(items, time.monotonic())
        for root, group in gathered.ended:
            self._store.root_ended(root, group)
        for span, above in gathered.late:
            if not self._store.take_late(span, above):
                self._ledger.lost_late(span.trace_id)
        self._lose(gathered.losses)
        return self.tick()

    def tick(self) -> float:
        """Do all due work; returns the time of the next call, in `time.monotonic` seconds."""
        now = time.monotonic()
        self._close_due(now)
        if self.gatherer.next_eviction <= now:
            self._lose(self.gatherer.evict_old(now))
        if self.conversations.active:
            self._score_conversations(self.conversations.due(now, self.evaluator.scheduler.room))
        next_conversation = self.conversations.next_due(now) if self.conversations.active else inf
        if self._loss_log.next_poll <= now:
            self._loss_log.poll(self.losses())
        self.evaluator.deliver_checked(now - self._check_age)
        if self.rule_sets.earlier:
            self.rule_sets.retire()
        return min(
            self.gatherer.next_close, self._split_runs.next_due, next_conversation, now + _TICK_SECONDS
        )

    def check(self, check: Check) -> None:
        """Evaluate the run under way for an application that waits. Never raises."""
        try:
            run = self._under_way.find(check.place, check.answer)
            if isinstance(run, NotScored):
                self.evaluator.refuse(check, run.reason, run.explanation or "")
            else:
                self.evaluator.check(check, run)
        except BaseException as error:
            log_error(_logger, "an answer could not be checked", error=error)
            self.evaluator.refuse(check, "unreadable", "the run could not be read; the log has the error")

    async def run(self) -> None:
        """Prepare the scorers and deliver to destinations, until cancelled."""
        hide_task()
        if KEEPS_THREADS:
            self._store.start()
        limiter = current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, self._concurrency)
        # Not a task group: if one of them fails, the others continue until the loop ends.
        await asyncio.gather(
            self.evaluator.prepare(),
            self.fan_out.run(),
            self._note_deliveries(),
            self._report_all_picks(),
        )

    def use_rules(self, config: Config) -> None:
        """Switch to other rules; conversation rules keep their names and idle times."""
        self._ledger.add_rules(rule.name for rule in config.rules)
        self._store.use_rules(config.rules)
        self.conversations.use_rules(config.rules)
        self.rule_sets.use(config)

    # --- from spans to scores ---

    def _close_due(self, now: float) -> bool:
        """Score the runs that are complete; returns False if none was."""
        groups = self.gatherer.close_due(now) if self.gatherer.next_close <= now else []
        for group in groups:
            if not group.spans or time.monotonic() < self.read_until:
                self._judge(group, self._reader.read(group) if group.spans else [])
                self._offer_lock()
            elif not self._store.keeps:
                self._ledger.lost(undecided(group.spans[0].trace_id))
        if self._split_runs.next_due <= now:
            for run in self._split_runs.due(now):
                self._score([run], group_of([run]))
        return bool(groups)

    def _offer_lock(self) -> None:
        """Release the GIL every 2 ms; other threads would wait for the 5 ms switch interval."""
        if time.monotonic() - self._offered > _LOCK_SECONDS:
            time.sleep(0)
            self._offered = time.monotonic()

    def _judge(self, group: SpanGroup, read: list[Run]) -> None:
        runs: list[Run] = [] if group.judged is None else read
        for run in read if group.judged is None else ():
            runs += self._split_runs.add(run, time.monotonic())
        self._score(runs, group if runs == read else group_of(runs, group))

    def _score(self, runs: Sequence[Run], group: SpanGroup) -> None:
        """Score runs, and release every held span that is neither judged nor part of an unfinished run."""
        if self.conversations.active:  # first: the store must have them at all times
            self._score_conversations(self.conversations.take(runs, time.monotonic()))
        if self.rule_sets.raised:
            runs, lost = self.rule_sets.whole(runs)
            self._lose(lost)
        targets = self.evaluator.score(runs, group)
        if (scores := self._attacher.scores) is not None:
            awaited = {target.span_id for target in targets} | self._split_runs.held
            for span in group.spans:
                if span.span_id not in awaited:
                    scores.release(span.trace_id, span.span_id)

    def _score_conversations(self, due: Sequence[JoinedConversation]) -> bool:
        for joined in due:
            self.evaluator.score_conversation(joined)
            self.conversations.asked(joined)
        return bool(due)

    def _lose(self, losses: Sequence[Loss]) -> None:
        for loss in losses:
            self._ledger.lost(loss)

    def _post(self, function: Callable[[], object]) -> None:
        """Call a function of the store on the engine's thread; may be called on any thread."""

        def call() -> None:
            function()
            if (recovered := self._store.recovered()) is not None:
                self.resume(recovered)

        self._thread.call(call)

    def resume(self, recovered: Recovered) -> None:
        """Continue the work of processes that have ended."""
        for group in recovered.groups:
            self._judge(group, self._reader.read(group))
        for kept, runs, state in recovered.conversations:
            for run in runs:
                self._score_conversations(self.conversations.take_back(run, state, time.monotonic()))
            self._store.forget_conversation([kept])

    def receive(self, passed: PassedRun) -> None:
        """Take a run that another process passed on. Never raises."""
        try:
            read = self._reader.read_again(passed.spans, passed.links) if passed.ids is None else [passed.ids]
            for run in read:
                self._score_conversations(self.conversations.receive(run, passed, time.monotonic()))
        except BaseException as error:
            log_error(_logger, "a run of a conversation could not be read", error=error)
            self._ledger.lost(Loss("run", "unreadable", passed.spans[0].trace_id if passed.spans else ""))

    def forget_conversations(self, sources: Collection[Hashable]) -> None:
        """Forget the conversations that another process gathers now."""
        self.conversations.forget(sources)

    # --- after the delivery ---

    async def _note_deliveries(self) -> None:
        """Record the outcome of deliveries, until cancelled."""
        hide_task()
        while True:
            self._note(await self._delivered.get())

    def _note(self, *delivered: Delivered) -> None:
        """Record the outcome of these deliveries and of all others in the queue."""
        for each in (*delivered, *taken_from(self._delivered)):
            self._ledger.trace_log.delivered(*each)
            self._store.delivered(*each)

    async def _report_all_picks(self) -> None:
        hide_task()
        while True:
            await asyncio.sleep(_PICKS_SECONDS)
            await self.report_picks()

    async def report_picks(self) -> None:
        """Send the number of runs picked by each rule to destinations that store it for the sampler check."""
        rows = self._ledger.picks.changed()
        if rows and await self.fan_out.keep_picks(rows):
            self._ledger.picks.told(rows)

    # --- counts, read from any thread ---

    def stats(self) -> Stats:
        stats = self._ledger.stats(self._thread.backlog.refused)
        if waiting := self.conversations.waiting:
            stats = replace(stats, conversations=ConversationStats(waiting=waiting))
        return replace(stats, store=self._store.stats()) if self._store.keeps else stats

    def losses(self) -> dict[str, int]:
        return losses_of(self.stats(), self.fan_out.stats())

    async def open_traces(self, seconds: float) -> set[str] | None:
        """Return the ids of the traces that are neither delivered nor in the store; None after a timeout.

        With the digests of the conversations of other processes.
        """
        found = self.gatherer.open_traces | self._split_runs.open_traces | self._store.open_traces
        found |= self.conversations.open_digests
        return found if await self._store.flush(seconds) else None

    # --- the end ---

    async def flush(self, deadline: float, *, ending: bool = False) -> bool:
        """Score and deliver everything taken so far; returns False after a timeout.

        With `ending`, conversations that are not idle yet are scored too.
        """
        delivered = more = True
        while more and delivered:  # a gatherer may close only as many runs as the destinations have room for
            more = self._close_due(inf)
            await self._settle(deadline, ending=ending)
            self._attacher.release_metrics()
            await self.report_picks()
            await self._store.all_sent(deadline - time.monotonic())
            delivered = await self.fan_out.force_flush(max(0.0, deadline - time.monotonic()))
            self._note()
        written = await self._store.flush(deadline - time.monotonic())
        return delivered and written and not self._ledger.pending

    async def _settle(self, deadline: float, *, ending: bool) -> None:
        room = self.evaluator.scheduler
        while (left := deadline - time.monotonic()) > 0:
            if ending and self._score_conversations(self.conversations.due(inf, room.room)):
                await asyncio.sleep(0)
            if not self._ledger.pending and not (ending and self.conversations.waiting):
                return
            if not await self.evaluator.settled(left):
                return

    async def finish_all(self, deadline: float) -> None:
        """Drop unfinished evaluations, and release the destinations and the store."""
        self._drop_all()
        await self._store.prepare_shutdown((deadline - time.monotonic()) / 2)
        await self.report_picks()
        await self.fan_out.shutdown(max(0.1, deadline - time.monotonic()))
        self._note()
        await self._store.close(max(0.1, deadline - time.monotonic()))

    def end(self, items: Sequence[IntakeItem]) -> None:
        """Drop and count all unfinished work, with or without an earlier `finish_all`."""
        self._drop_all()
        self._attacher.release_metrics()
        self._lose(self.gatherer.end(items))
        held = self._split_runs.flush()
        self._lose([] if self._store.keeps else [undecided(run.trace_id) for run in held])
        self._note()

    def _drop_all(self) -> None:
        self.rule_sets.abort("shutdown")
        self._score_conversations(self.conversations.end())
        self.conversations.clear()

    def close(self) -> None:
        """Close scoring processes and logs, after the engine's thread has ended."""
        self.rule_sets.close()
        with suppress(BaseException):  # a log handler of the application
            self._loss_log.close(self.losses())
            self._ledger.failures.close()
            self._ledger.exclusions.close()


def assembly_limits(config: Config) -> AssemblyLimits:
    """Return the assembly bounds of a configuration."""
    return AssemblyLimits(
        grace=config.grace,
        max_age=config.max_age,
        max_traces=config.max_open_traces,
        max_spans_per_trace=config.max_spans_per_trace,
        max_bytes=config.max_bytes,
    )


def undecided(trace_id: str) -> Loss:
    return Loss("run", "undecided_at_shutdown", trace_id)


def losses_of(stats: Stats, destinations: Mapping[str, DestinationStats]) -> dict[str, int]:
    ignored = {reason: count for reason, count in stats.ignored.items() if reason not in _NOT_A_LOSS}
    counted = [
        ("spans or log records", stats.losses),
        ("runs", ignored),
        ("conversations", stats.conversations.lost),
        *((f"evaluations by {name}", rule.dropped) for name, rule in stats.rules.items()),
        ("runs in the store", stats.store.evicted),
        *((f"scored runs for {name}", each.losses) for name, each in destinations.items()),
    ]
    return {f"{what} ({reason})": count for what, by in counted for reason, count in by.items()}
