"""The stages, wired: captured items -> spans -> runs -> decisions -> scores -> attachments -> destinations.

Each stage is called with its input and returns its output, which is handed to the next one here.
All of it is on the engine's thread.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf

from anyio.to_thread import current_default_thread_limiter

from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.accounting.loss_log import LossLog
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.capture.items import IntakeItem
from otel_evals._internal.capture.open_spans import OpenSpansNow
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.dialect import Dialects
from otel_evals._internal.evaluate.conversation_stage import ConversationStage, JoinedConversation
from otel_evals._internal.evaluate.evaluator import Evaluator
from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.evaluate.queue_interface import ConversationState, DurableQueue, Resumption
from otel_evals._internal.evaluate.rule_sets import RuleSets
from otel_evals._internal.gather.gatherer import Gatherer, SpanGroup
from otel_evals._internal.gather.local_gatherer import LocalGatherer
from otel_evals._internal.model import Loss, Outcome, Run, ScoredRun
from otel_evals._internal.pipeline.assembly_limits import assembly_limits
from otel_evals._internal.pipeline.pick_reports import PickReports
from otel_evals._internal.pipeline.unread_runs import undecided, what_is_left
from otel_evals._internal.read.reader import RunReader, group_of
from otel_evals._internal.read.split_runs import SplitRuns
from otel_evals._internal.util.calls import hide_task

__all__ = ["Stages"]

_logger = logging.getLogger(__name__)
_TICK_SECONDS = 1.0
_LOCK_SECONDS = 0.002


class Stages:
    """One process's stages; the engine's thread calls `take`, `tick` and `run`.

    Args:
        config: rules, limits, destinations.
        dialects: who reads spans.
        ledger: is told what becomes of every run.
        attacher: puts outcomes where the traces are.
        store: keeps sampled runs until they are scored and delivered.
        post: has a function called on the engine's thread; called from any thread.
        losses: reads all losses so far, by what and why, for the log.
        open_spans: the spans that have not ended; without it, every run waits for its whole grace period.
        gatherer: collects spans until runs are complete; by default one for spans of this process.
    """

    def __init__(
        self,
        config: Config,
        dialects: Dialects,
        ledger: Ledger,
        attacher: Attacher,
        store: DurableQueue,
        post: Callable[[Callable[[], object]], None],
        losses: Callable[[], Mapping[str, int]],
        open_spans: Callable[[], OpenSpansNow] | None = None,
        gatherer: Gatherer | None = None,
    ) -> None:
        self.post = post
        self._reader = RunReader(dialects, ledger)
        self.read = self._reader.read_again
        self._ledger = ledger
        self._attacher = attacher
        self._store = store
        self._concurrency = sum(rule.concurrency for rule in config.rules)
        self.gatherer = gatherer or LocalGatherer(
            assembly_limits(config), report_ended=store.keeps, open_spans=open_spans
        )
        self._split_runs = SplitRuns(max_bytes=config.max_bytes)
        self.read_until = inf
        """When to stop reading runs and only count them, on `time.monotonic`; set from any thread."""
        self._offered = 0.0
        self.conversations = ConversationStage(config, ledger, store)
        self.fan_out = FanOut(config.destinations, max_bytes=config.max_bytes, on_result=self._delivered)
        self.put, self.lacking = self.fan_out.put_to, self.fan_out.lacking
        self._picks = PickReports(ledger.picks, self.fan_out)
        fixed = ledger, attacher, self.fan_out.put, store, asyncio.Event()
        self.rule_sets = RuleSets(config, lambda now: Evaluator(now, *fixed))
        self._loss_log = LossLog(losses)
        store.open(self)

    @property
    def evaluator(self) -> Evaluator:
        """Under the rules that hold now."""
        return self.rule_sets.current

    # --- called by the engine's thread ---

    def take(self, items: Sequence[IntakeItem]) -> None:
        """Take captured spans and log records."""
        gathered = self.gatherer.add(items, time.monotonic())
        for root, group in gathered.ended:
            self._store.root_ended(root, group)
        for span, above in gathered.late:
            if not self._store.take_late(span, above):
                self.lose_late(span.trace_id, 1)
        self._lose(gathered.losses)

    def tick(self) -> float:
        """Do what is due; returns when to be called again, in `time.monotonic` seconds."""
        now = time.monotonic()
        self._close_due(now)
        if self.gatherer.next_eviction <= now:
            self._lose(self.gatherer.evict_old(now))
        if self.conversations.active:
            self._score_conversations(self.conversations.due(now, self.evaluator.scheduler.room))
        next_conversation = self.conversations.next_due(now) if self.conversations.active else inf
        if self._loss_log.next_poll <= now:
            self._loss_log.poll()
        if self.rule_sets.earlier:
            self.rule_sets.retire()
        return min(
            self.gatherer.next_close, self._split_runs.next_due, next_conversation, now + _TICK_SECONDS
        )

    async def run(self) -> None:
        """Prepare the scorers and deliver to destinations, until cancelled."""
        hide_task()
        limiter = current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, self._concurrency)
        await asyncio.gather(self.evaluator.prepare(), self.fan_out.run(), self._picks.run())

    def use_rules(self, config: Config) -> None:
        """Judge by other rules; those of conversations keep their names and idle times."""
        self._ledger.counters.add_rules(rule.name for rule in config.rules)
        self._store.use_rules(config.rules)
        self.conversations.use_rules(config.rules)
        self.rule_sets.use(config)

    # --- from spans to scores ---

    def _close_due(self, now: float) -> None:
        if self.gatherer.next_close <= now:
            self._score_groups(self.gatherer.close_due(now))
        if self._split_runs.next_due <= now:
            for run in self._split_runs.due(now):
                self._score([run], group_of([run]))

    def _score_groups(self, groups: Sequence[SpanGroup]) -> None:
        """First read all of them, then judge all: the processor does one thing at a time faster."""
        read = []
        for group in groups:
            if time.monotonic() < self.read_until:
                read.append((group, self._reader.read(group)))
                self._offer_lock()
            elif not self._store.keeps:
                self._ledger.lost(undecided(group.spans[0].trace_id))
        for group, runs in read:
            self._judge(group, runs)
            self._offer_lock()

    def _offer_lock(self) -> None:
        """Offer the interpreter's lock, every other millisecond: who wants it would wait for 5 ms else."""
        if time.monotonic() - self._offered > _LOCK_SECONDS:
            time.sleep(0)
            self._offered = time.monotonic()

    def score_group(self, group: SpanGroup) -> None:
        """Read the spans of one run, or of several that belong together, and ask the rules."""
        self._judge(group, self._reader.read(group))

    def _judge(self, group: SpanGroup, read: list[Run]) -> None:
        runs = [whole for run in read for whole in self._split_runs.add(run, time.monotonic())]
        self._score(runs, group if runs == read else group_of(runs, group))

    def _score(self, runs: Sequence[Run], group: SpanGroup) -> None:
        """Score runs, and let go of every span that is neither judged nor part of a run that goes on."""
        if self.conversations.active:  # first, so that the store is never without them
            self._score_conversations(self.conversations.take(runs, time.monotonic()))
        if self.rule_sets.raised:
            runs, lost = self.rule_sets.whole(runs)
            self._lose(lost)
        targets = self.evaluator.score(runs, group)
        awaited = {target.span_id for target in targets} | self._split_runs.held
        if others := [span for span in group.spans if span.span_id not in awaited]:
            self._attacher.release_all(others)

    def _score_conversations(self, due: Sequence[JoinedConversation]) -> bool:
        for joined in due:
            self.evaluator.score_conversation(joined)
            self.conversations.asked(joined)
        return bool(due)

    def _lose(self, losses: Sequence[Loss]) -> None:
        for loss in losses:
            self._ledger.lost(loss)

    def _delivered(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        self._ledger.delivered(destination, batch, end)
        self._store.delivered(destination, batch, end)

    # --- what a store needs: `otel_evals._internal.evaluate.queue_interface.StoreClient` ---

    def resume(self, resumptions: Sequence[Resumption]) -> list[Job]:
        """Make jobs of what the store kept."""
        return self.evaluator.resume(resumptions)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start jobs that the store has made its own."""
        self.evaluator.submit(jobs)

    def finish(self, job: Job, outcome: Outcome) -> None:
        """End a job with an outcome."""
        self.rule_sets.of(job).end(job, outcome)

    def withdraw(self, job: Job, reason: str) -> None:
        """End a job without an outcome: the store has it."""
        self.rule_sets.of(job).withdraw(job, reason)

    def take_back(self, run: Run, state: ConversationState) -> None:
        """Go on with a run whose conversation waited in a process that has ended."""
        self._score_conversations(self.conversations.take_back(run, state, time.monotonic()))

    def lose_late(self, trace_id: str, count: int) -> None:
        """Count late spans whose run is not kept."""
        self._ledger.lost(Loss("span", "span_late", trace_id, count))

    @property
    def waiting(self) -> int:
        """Jobs that have no slot yet."""
        return self.rule_sets.waiting

    async def open_traces(self, seconds: float) -> set[str] | None:
        """Ids of the traces that are neither delivered nor in the store; None if that took too long."""
        found = self.gatherer.open_traces | self._split_runs.open_traces | self._store.open_traces
        return found if await self._store.flush(seconds) else None

    # --- the end ---

    async def flush(self, deadline: float, *, ending: bool = False) -> bool:
        """Score and deliver everything taken so far, all conversations too if `ending`; whether in time."""
        self._close_due(inf)
        await self._settle(deadline, ending=ending)
        await self._picks.tell()
        await self._store.all_sent(deadline - time.monotonic())
        delivered = await self.fan_out.force_flush(max(0.0, deadline - time.monotonic()))
        written = await self._store.flush(deadline - time.monotonic())
        return delivered and written and not self._ledger.pending

    async def _settle(self, deadline: float, *, ending: bool) -> None:
        """Wait until no evaluation is pending."""
        room = self.evaluator.scheduler
        while (left := deadline - time.monotonic()) > 0:
            if ending and self._score_conversations(self.conversations.due(inf, room.room)):
                await asyncio.sleep(0)
            if not self._ledger.pending and not (ending and self.conversations.waiting):
                return
            if not await self.evaluator.settled(left):
                return

    async def finish_all(self, deadline: float) -> None:
        """Drop what has not ended, and release the destinations and the store."""
        self._drop_all()
        await self._store.prepare_shutdown((deadline - time.monotonic()) / 2)
        await self._picks.tell()
        await self.fan_out.shutdown(max(0.1, deadline - time.monotonic()))
        await self._store.close(max(0.1, deadline - time.monotonic()))

    def end(self, items: Sequence[IntakeItem]) -> None:
        """Drop and count all that is left, whether or not there was time for `finish_all`."""
        self._drop_all()
        self._lose(what_is_left(self.gatherer, self._split_runs, items, kept=self._store.keeps))

    def _drop_all(self) -> None:
        self.rule_sets.abort("shutdown")
        self._score_conversations(self.conversations.end())
        self.conversations.clear()

    def close(self) -> None:
        """End what does not live on the engine's thread; once that thread has ended."""
        self.rule_sets.close()
        with suppress(BaseException):  # somebody else's log handler
            self._loss_log.close()
            self._ledger.failures.close()
