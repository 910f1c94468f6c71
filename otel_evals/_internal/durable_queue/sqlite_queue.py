"""The durable queue in an SQLite file: when runs are written, retried, delivered again and scored again.

Engine's thread only; the writer has its own thread. A sampled run is handed to the writer once the rules
have decided, and is scored meanwhile. An evaluation that cannot be completed (the queue is full, a judge or a
destination is unavailable, the process ends) is tried again later, if the run is in the file.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

from otel_evals._internal.accounting.counters import StoreStats
from otel_evals._internal.config.options import Config
from otel_evals._internal.config.rules import Rule
from otel_evals._internal.durable_queue import retries
from otel_evals._internal.durable_queue.deliveries import Deliveries
from otel_evals._internal.durable_queue.late_spans import Late, LateSpans, add_late, run_of, size_of
from otel_evals._internal.durable_queue.resumption import expected_ids, judged_runs, resumptions
from otel_evals._internal.durable_queue.stored_evaluations import restored, stored
from otel_evals._internal.durable_queue.stored_run import (
    RunStatus,
    StoredRun,
    Task,
    Undelivered,
    merged,
    new_run,
)
from otel_evals._internal.durable_queue.writer import Writer
from otel_evals._internal.evaluate.job import Job, Target
from otel_evals._internal.evaluate.queue_interface import (
    ConversationState,
    DurableQueue,
    KeptRun,
    QueueParts,
    Recovered,
)
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.model import Outcome, Run, ScoredRun, SpanRecord
from otel_evals._internal.read.reader import group_of
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.plain import plain_text, type_name

_logger = logging.getLogger(__name__)
_MAX_ENDED = 20_000


class SQLiteQueue(DurableQueue):
    """Keeps sampled runs in a file until they are scored and delivered."""

    keeps = True

    def __init__(self, config: Config) -> None:
        self._config = config
        self.use_rules(config.rules)
        self._ended: dict[str, StoredRun] = {}
        """Runs in their grace period, by root span id; also those that the gatherer has lost meanwhile."""
        self._ended_bytes = 0
        self._by_target: dict[Target, StoredRun] = {}
        self._by_trace: dict[str, list[StoredRun]] = {}
        """Runs in progress."""
        self._late_spans = LateSpans(self._join, config.max_bytes)
        self._asking: set[asyncio.Future[None]] = set()
        self._recovered: Recovered | None = None
        self._stopping = False

    def use_rules(self, rules: Iterable[Rule]) -> None:
        self._rules = {rule.name: rule for rule in rules}

    def open(self, parts: QueueParts) -> None:
        self._parts = parts
        self._evaluations = parts.evaluations
        self._deliveries = Deliveries(parts.fan_out.put)
        self._writer = Writer(self._config, parts.post, self._room, self._take_up, self._resolve_undecided)

    def recovered(self) -> Recovered | None:
        recovered, self._recovered = self._recovered, None
        return recovered

    def start(self) -> None:
        self._writer.start()

    # --- from a run's end to its delivery ---

    def root_ended(self, root: str, group: SpanGroup) -> None:
        """Write the run, so a crash within its grace period does not lose it."""
        run = new_run(group.spans[0].trace_id, group, RunStatus())
        self._note_ended(root, run)
        self._writer.save(run)
        while len(self._ended) > _MAX_ENDED or self._ended_bytes > self._config.max_bytes:
            self._delete(self._pop_ended(next(iter(self._ended))))

    def keep(self, group: SpanGroup, jobs: Sequence[Job]) -> None:
        """Write the run with its jobs, or delete it if there are none."""
        known = [run for span in group.spans for run in self._pop_ended(span.span_id)]
        first = known.pop(0) if known and jobs else None
        self._delete(known)
        if jobs:
            status = RunStatus(revision=jobs[0].target.revision)
            kept = new_run(jobs[0].run.trace_id, group, status)
            run = first or kept
            if run.spans != kept.spans:
                run.spans, run.links, run.size, run.grown = kept.spans, kept.links, kept.size, True
            run.status = replace(run.status, tasks=tuple(_task(job) for job in jobs))
            self._adopt(run, jobs)
            self._by_trace.setdefault(run.trace_id, []).append(run)
            self._writer.save(run)

    def add(self, job: Job) -> None:
        run = self._by_target.get(job.target)
        if run is None:
            return
        tasks, left = run.status.tasks or (), run.status.left
        run.status = replace(
            run.status, tasks=(*tasks, _task(job)), left=None if left is None else (*left, len(tasks))
        )
        self._writer.save(run)

    def defer(self, job: Job, outcome: Outcome) -> bool:
        run = self._by_target.get(job.target)
        if run is None or run.kept is False:
            return False
        if not retries.may_succeed_later(run.status, outcome, self._config.store_attempts):
            run.failed = retries.failure_of(outcome) or run.failed
            return False
        if run.kept:
            self._postpone(run, job, outcome)
        else:
            run.undecided.append((job, outcome))
        return True

    def deliver(self, target: Target) -> bool:
        run = self._by_target.pop(target, None)
        if run is None:
            return False
        if not target.evaluations:
            self._done(run, target)
            return True
        scored = ScoredRun(run=target.run, evaluations=target.evaluations)
        if run.status.crashes and target.span_id not in run.lacking:
            self._ask(self._deliver_to_lacking(run, target, scored))
        else:
            self._send(run, target, target.span_id, scored, run.lacking.get(target.span_id))
        return True

    def delivered(self, destination: str, batch: Sequence[ScoredRun], end: str) -> None:
        self._deliveries.answered(destination, batch, end)

    def take_late(self, span: SpanRecord, above: str | None) -> bool:
        return not self._stopping and self._late_spans.take(span, above)

    def stats(self) -> StoreStats:
        return self._writer.stats()

    def _adopt(self, run: StoredRun, jobs: Iterable[Job]) -> None:
        for job in jobs:
            run.awaited.add(job.target)
            self._by_target[job.target] = run

    def _note_ended(self, root: str, run: StoredRun) -> None:
        self._pop_ended(root)
        self._ended[root] = run
        self._ended_bytes += run.size

    def _pop_ended(self, root: str) -> list[StoredRun]:
        run = self._ended.pop(root, None)
        if run is None:
            return []
        self._ended_bytes -= run.size
        return [run]

    def _delete(self, runs: Iterable[StoredRun]) -> None:
        for run in runs:
            run.status = replace(run.status, state="gone")
            self._writer.save(run)

    # --- runs that wait with their conversation ---

    def keep_for_conversation(self, run: Run, state: ConversationState) -> KeptRun:
        group = group_of([run])
        kept = new_run(run.trace_id, group, RunStatus(conversation=state))
        self._writer.save(kept)
        return kept

    def note_conversation(self, kept: KeptRun, state: ConversationState) -> None:
        run = cast("StoredRun", kept)
        run.status = replace(run.status, conversation=state)
        self._writer.save(run)

    def forget_conversation(self, kept: Iterable[KeptRun]) -> None:
        self._delete(cast("Iterable[StoredRun]", kept))

    # --- the process ---

    def before_fork(self) -> None:
        self._writer.before_fork()

    def after_fork_in_parent(self) -> None:
        self._writer.after_fork_in_parent()

    def after_fork_in_child(self) -> None:
        self._writer.after_fork_in_child()

    async def all_sent(self, seconds: float) -> None:
        """Wait until crashed runs were compared with their destinations and the rest was queued for them."""
        if self._asking:
            await asyncio.wait(self._asking, timeout=max(0.0, seconds))

    async def flush(self, seconds: float) -> bool:
        return await self._ask_writer(self._writer.flush, seconds)

    async def prepare_shutdown(self, seconds: float) -> None:
        self._stopping = True
        for task in self._asking:
            task.cancel()
        await self.flush(seconds)
        for run in [run for runs in self._by_trace.values() for run in runs]:
            if run.kept is None:
                run.kept = False
                self._resolve_undecided(run)

    async def close(self, seconds: float) -> None:
        await self._ask_writer(self._writer.close, seconds)

    async def _ask_writer(self, ask: Callable[[Callable[[], None]], None], seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        answered = asyncio.Event()

        def answer() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(answered.set)

        ask(answer)
        try:
            await asyncio.wait_for(answered.wait(), max(0.0, seconds))
        except TimeoutError:
            return False
        return True

    # --- retries ---

    def _postpone(self, run: StoredRun, job: Job, outcome: Outcome) -> None:
        retries.postpone(run, run.position(job), outcome)
        self._evaluations.withdraw(job, run.reason)

    def _resolve_undecided(self, run: StoredRun) -> None:
        """End or postpone the jobs that waited until the writer knew if their run is in the file."""
        undecided, run.undecided = run.undecided, []
        for job, outcome in undecided:
            if run.kept:
                self._postpone(run, job, outcome)
            else:
                self._evaluations.end(job, outcome)

    def _done(self, run: StoredRun, awaited: object) -> None:
        """Note that a target or its earlier evaluation was delivered or postponed."""
        run.awaited.discard(awaited)
        if not run.awaited:
            self._settle(run)

    def _settle(self, run: StoredRun) -> None:
        """Write the state of a run without tasks in progress, or score it again with its late spans."""
        self._forget(run)
        if run.late and not self._stopping:
            self._score_again(run)
            return
        if run.late:
            self._parts.ledger.lost_late(run.trace_id, len(run.late))
        run.status = retries.settled(run)
        if run.kept is not False:
            self._writer.save(run)

    def _forget(self, run: StoredRun) -> None:
        runs = self._by_trace.get(run.trace_id, [])
        if run in runs:
            runs.remove(run)
        if not runs:
            self._by_trace.pop(run.trace_id, None)

    def _send(
        self,
        run: StoredRun,
        awaited: object,
        span_id: str,
        scored: ScoredRun,
        destinations: Collection[str] | None,
    ) -> None:
        run.awaited.add(awaited)
        self._deliveries.start(
            scored,
            destinations,
            lambda missed: self._sent(run, awaited, span_id, scored, missed),
            kept=run.kept is not False,
        )

    async def _deliver_to_lacking(self, run: StoredRun, target: Target, scored: ScoredRun) -> None:
        """Deliver only to destinations without the evaluations: the crashed process may have delivered."""
        ids = [evaluation.evaluation_id for evaluation in scored.evaluations]
        lacking = await self._parts.fan_out.lacking(ids, run.status.revision)
        self._send(run, target, target.span_id, scored, lacking)

    def _sent(
        self, run: StoredRun, awaited: object, span_id: str, scored: ScoredRun, missed: Sequence[str]
    ) -> None:
        if missed and run.kept is not False:  # it may not be written yet
            run.undelivered.append(
                Undelivered(span_id, tuple(missed), tuple(stored(e) for e in scored.evaluations))
            )
            run.reason = run.reason or f"not delivered to {', '.join(missed)}"
            if not self._stopping:
                run.delay = max(run.delay, retries.UNAVAILABLE_SECONDS)
        self._done(run, awaited)

    # --- runs that other processes left ---

    def _room(self) -> tuple[int, int]:
        """Return how many further runs, of how many bytes, may be claimed."""
        runs, size = self._config.queue_size // 2, self._config.max_bytes // 2
        if self._stopping:
            return 0, 0
        return max(1, runs) - self._evaluations.waiting, size - self._evaluations.waiting_bytes

    def _take_up(self, runs: Sequence[StoredRun]) -> None:
        """Continue with claimed runs."""
        for run in runs:
            try:
                self._go_on_with(run)
            except Exception as error:  # other runs continue
                log_error(_logger, "a stored run could not be resumed", error=error)
                run.status = replace(run.status, state="dead_letter", reason=type_name(error))
                self._writer.save(run)

    def _go_on_with(self, run: StoredRun) -> None:
        if run.status.conversation is not None:
            self._take_back(run, run.status.conversation)
        elif run.status.tasks is None:
            self._score_ended(run)
        elif run.status.crashes:
            self._ask(self._resume_crashed(run))
        else:
            self._resume(run)

    def _take_back(self, run: StoredRun, state: ConversationState) -> None:
        """Have the run added to its conversation, which stores it again; then it is deleted here."""
        if self._stopping:
            return
        if state.asked.keys() & self._rules.keys():
            self._recovered = self._recovered or Recovered()
            runs = self._parts.read(run.spans, run.links)
            self._recovered.conversations.append((run, runs, state))
        else:
            run.status = retries.absent(run.status)
            self._writer.save(run)

    def _score_ended(self, run: StoredRun) -> None:
        """Score a run whose process ended in the grace period, before the rules were evaluated."""
        if not self._stopping:
            self._note_ended(run.spans[0].span_id, run)
            self._recovered = self._recovered or Recovered()
            self._recovered.groups.append(SpanGroup(run.spans, run.links))

    def _ask(self, questions: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(questions)
        self._asking.add(task)
        task.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Future[None]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log_error(_logger, "destinations could not be asked what they have", error=error)

    async def _resume_crashed(self, run: StoredRun) -> None:
        """Ask the destinations first: the process may have crashed between delivery and commit."""
        lacking: dict[str, tuple[str, ...]] = {}
        expected = expected_ids(run, self._rules, lambda: self._parts.read(run.spans, run.links))
        for span_id, ids in expected.items():
            destinations = await self._parts.fan_out.lacking(ids, run.status.revision)
            if destinations is not None:
                lacking[span_id] = tuple(destinations)
        run.lacking = lacking
        self._resume(run)

    def _resume(self, run: StoredRun) -> None:
        """Make the remaining evaluations of a run, and deliver the undelivered ones."""
        if self._stopping:
            return
        self._by_trace.setdefault(run.trace_id, []).append(run)
        run.begin_attempt()
        all_begun = object()  # awaited too, so the run cannot settle before everything has begun
        run.awaited = {all_begun}
        try:
            runs = judged_runs(run, self._parts.read(run.spans, run.links))
            found, absent = resumptions(run, runs, self._rules)
            self._deliver_owed(run, runs)
            jobs = self._evaluations.resume(found)
            self._adopt(run, jobs)
            self._evaluations.submit(jobs)
        except Exception as error:
            log_error(_logger, "a stored run could not be resumed", error=error)
            run.failed = f"{type_name(error)}: {plain_text(error)}"[:500]
        else:
            if absent:
                run.postponed += absent
                run.reason, run.delay = retries.ABSENT, retries.ABSENT_SECONDS
        self._done(run, all_begun)

    def _deliver_owed(self, run: StoredRun, runs: Sequence[Run]) -> None:
        by_span = {each.root_span_id: each for each in runs}
        for undelivered in run.status.undelivered:
            evaluations = tuple(restored(values) for values in undelivered.evaluations)
            judged = by_span.get(undelivered.target) or replace(runs[0], root_span_id=undelivered.target)
            scored = ScoredRun(run=judged, evaluations=evaluations)
            self._send(run, object(), undelivered.target, scored, undelivered.destinations)

    # --- late spans ---

    def _join(self, trace_id: str, late: Sequence[Late]) -> None:
        """Add late spans to the run in progress, or have the writer find the stored one."""
        run = run_of(self._by_trace.get(trace_id, []), late)
        if run is not None:
            self._add_late(run, late)
        elif self._stopping:
            self._parts.ledger.lost_late(trace_id, len(late))
        else:
            self._writer.ask(trace_id, lambda found: self._rejoin(trace_id, late, found))

    def _rejoin(self, trace_id: str, late: Sequence[Late], found: Sequence[StoredRun]) -> None:
        owner = run_of(found, late)
        if owner is None:
            self._parts.ledger.lost_late(trace_id, len(late))
        elif not self._add_late(owner, late):
            owner = None
        for run in found:
            if run is not owner:
                run.status = replace(run.status, state="done")
                self._writer.save(run)
        if owner is not None:
            self._score_again(owner)

    def _add_late(self, run: StoredRun, late: Sequence[Late]) -> bool:
        """Add late spans to a run; returns False if that would exceed the limits of an open trace."""
        count, size = len(run.spans) + len(run.late) + len(late), run.size + size_of(late)
        if count > self._config.max_spans_per_trace or size > self._config.max_bytes // 2:
            self._parts.ledger.lost_late(run.trace_id, len(late))
            return False
        add_late(run, late)
        run.size = size
        return True

    def _score_again(self, run: StoredRun) -> None:
        """Score a run again with its late spans, as the next revision of the same evaluations."""
        run.spans, run.late, run.grown = merged(run.spans, run.late), [], True
        status = run.status
        run.status = replace(
            status, state="open", free=False, left=None, undelivered=(), revision=status.revision + 1
        )
        run.lacking = {}
        self._writer.save(run)
        self._resume(run)


def _task(job: Job) -> Task:
    return Task(job.rule.name, job.target.span_id, job.sampled.probability, job.sampled.rule, job.rule.scope)
