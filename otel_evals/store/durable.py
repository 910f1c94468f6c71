"""The engine's side of the spool: what is written when, what goes back, what is scored again.

Lives on the engine's thread only, as judging does. A sampled run is handed to the writer as soon as the rules
have decided and is scored meanwhile. Whatever then cannot be done (no room in the queue, the judge is down,
a destination is down, the process leaves) goes back into the file, if the file has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any

from otel_evals.assembly.live import Closed
from otel_evals.config import Config
from otel_evals.engine import Job
from otel_evals.judging import rule_names
from otel_evals.model import Outcome, Run, ScoredRun, SpanRecord
from otel_evals.store import fate
from otel_evals.store.entry import Entry, Owed, Status, Task, Turn, merged
from otel_evals.store.fate import may_succeed_later, send_back, settled
from otel_evals.store.file import limits_of
from otel_evals.store.flights import Flights
from otel_evals.store.latecomers import Late, Latecomers, home_of, welcome
from otel_evals.store.outcomes import restored, stored
from otel_evals.store.replay import Scoring, expected_ids, judged_runs, pick_up
from otel_evals.store.turns import Turns
from otel_evals.store.writer import Writer

__all__ = ["Durable"]

_logger = logging.getLogger(__name__)
_MAX_NOTED = 20_000


class Durable:
    """Keeps sampled runs until they are scored and delivered.

    Args:
        config: the store's path and bounds, and the rules.
        post: has a function called on the engine's thread.
        read: makes runs of spans.
        judge: asks the rules about the runs of spans, as if these had just ended.
        put: hands a scored run to destinations, to all or to those named; returns their names.
        lacking: which destinations lack evaluations of a revision; None where nobody can tell.
        late: called with a trace id and a number of late spans that nothing kept can take.
    """

    def __init__(
        self,
        config: Config,
        post: Callable[[Callable[[], object]], None],
        *,
        read: Callable[[Sequence[SpanRecord], Mapping[str, str | None]], list[Run]],
        judge: Callable[[Closed], None],
        put: Callable[[ScoredRun, Collection[str] | None], Sequence[str]],
        lacking: Callable[[Sequence[str], int], Awaitable[Sequence[str] | None]],
        late: Callable[[str, int], None],
    ) -> None:
        self._attempts = config.store_attempts
        self._capacity = config.queue_size
        self._rules = rule_names(config.rules)
        self._read = read
        self._judge = judge
        self._noted: dict[str, Entry] = {}
        self._flights = Flights(put)
        self._lacking = lacking
        self._late = late
        self._writer = Writer(str(config.store), limits_of(config), post, self._room, self._found, self._told)
        self._live: dict[str, list[Entry]] = {}
        self._latecomers = Latecomers(self._join)
        self.turns = Turns(self._writer.save, read)
        """Runs that wait with their conversation."""
        self._asking: set[asyncio.Future[None]] = set()
        self._leaving = False
        self.scoring: Scoring
        """Judging; set once both exist."""

    # --- the way of a run ---

    def note(self, root: str, closed: Closed) -> None:
        """Write a run whose root has ended: a crash within its grace is not to cost it."""
        entry = self._noted[root] = Entry(closed.spans[0].trace_id, closed.spans, closed.links)
        self._writer.save(entry)
        if len(self._noted) > _MAX_NOTED:
            self._pass_over(self._noted.pop(next(iter(self._noted))))

    def admit(self, closed: Closed, jobs: Sequence[Job], revision: int = 1) -> None:
        """The rules have decided: keep the run for its jobs, which are being queued, or not at all."""
        noted = [e for span in closed.spans if (e := self._noted.pop(span.span_id, None)) is not None]
        entry = noted.pop(0) if noted and jobs else None
        for other in noted:
            self._pass_over(other)
        if jobs:
            status = Status(revision=revision)
            self._keep(entry or Entry(jobs[0].run.trace_id, closed.spans, closed.links, status), closed, jobs)

    def _pass_over(self, entry: Entry) -> None:
        entry.status = replace(entry.status, state="gone")
        self._writer.save(entry)

    def _keep(self, entry: Entry, closed: Closed, jobs: Sequence[Job]) -> None:
        if entry.spans != closed.spans:
            entry.spans, entry.links, entry.grown = closed.spans, closed.links, True
        entry.open_targets = len({id(job.ticket) for job in jobs})
        for place, job in enumerate(jobs):
            job.place, job.ticket.entry = place, entry
        entry.status = replace(entry.status, tasks=tuple(_task(job) for job in jobs))
        self._live.setdefault(entry.trace_id, []).append(entry)
        self._writer.save(entry)

    def add(self, job: Job) -> None:
        """Write one more job of a run, which a cascade has picked now."""
        entry: Entry = job.ticket.entry
        tasks = entry.status.tasks or ()
        job.place = len(tasks)
        left = entry.status.left
        entry.status = replace(
            entry.status, tasks=(*tasks, _task(job)), left=None if left is None else (*left, job.place)
        )
        self._writer.save(entry)

    def takes_back(self, job: Job, outcome: Outcome) -> bool:
        """Whether a job that ended so goes back into the file rather than out."""
        entry: Entry | None = job.ticket.entry
        if entry is None or entry.kept is False or not may_succeed_later(entry, outcome, self._attempts):
            return False
        if entry.kept:
            self._back(entry, job, outcome)
        else:
            entry.limbo.append((job, outcome))
        return True

    def deliver(self, entry: Entry, target: str, scored: ScoredRun) -> None:
        """All jobs of a judged span have ended: deliver what came of them."""
        if entry.status.crashes and target not in entry.lacking:
            self._ask(self._deliver_to_lacking(entry, target, scored))
        else:
            self._send(entry, target, scored, entry.lacking.get(target))

    def delivered(self, name: str, batch: Sequence[ScoredRun], end: str) -> None:
        """What became of scored runs at a destination."""
        self._flights.told(name, batch, end)

    def late(self, span: SpanRecord, above: str | None) -> bool:
        """Take a span whose run was closed before; whether it can be taken."""
        return not self._leaving and self._latecomers.take(span, above)

    # --- starting and leaving ---

    def start(self) -> None:
        """Take up what earlier processes left, whether or not there is traffic."""
        self._writer.start()

    def before_fork(self) -> None:
        """Have the file closed while this process forks."""
        self._writer.before_fork()

    def after_fork_in_parent(self) -> None:
        """The fork is over: go on."""
        self._writer.after_fork_in_parent()

    def leave_to_parent(self) -> None:
        """In a forked child: what was held is the parent's."""
        self._writer.leave_to_parent()

    async def all_sent(self, seconds: float) -> None:
        """Wait until destinations have said what they have already, and got the rest."""
        if self._asking:
            await asyncio.wait(self._asking, timeout=max(0.0, seconds))

    async def flush(self, seconds: float) -> bool:
        """Have everything written; whether that was done in time."""
        return await self._ask_writer(self._writer.flush, seconds)

    async def prepare_to_leave(self, seconds: float) -> None:
        """Learn what is safely in the file; what is not by then ends as it would without it."""
        self._leaving = True
        for task in self._asking:
            task.cancel()
        await self.flush(seconds)
        for entry in [entry for entries in self._live.values() for entry in entries]:
            if entry.kept is None:
                entry.kept = False
                self._told(entry)

    async def close(self, seconds: float) -> None:
        """Free what this process still holds, and close the file."""
        await self._ask_writer(self._writer.close, seconds)

    def stats(self) -> Mapping[str, int]:
        """What was written, taken over and lost so far."""
        return self._writer.stats()

    async def _ask_writer(self, ask: Callable[[Callable[[], None]], None], seconds: float) -> bool:
        loop = asyncio.get_running_loop()
        answered = asyncio.Event()
        ask(lambda: _call_soon(loop, answered.set))
        try:
            await asyncio.wait_for(answered.wait(), max(0.0, seconds))
        except TimeoutError:
            return False
        return True

    # --- what goes back ---

    def _back(self, entry: Entry, job: Job, outcome: Outcome) -> None:
        send_back(entry, job.place, outcome)
        self.scoring.withdraw(job, entry.reason)

    def over(self, entry: Entry) -> None:
        """A judged span needs nothing more."""
        entry.open_targets -= 1
        if entry.open_targets <= 0:
            self._settle(entry)

    def _told(self, entry: Entry) -> None:
        """It is known now whether the file has an entry."""
        limbo, entry.limbo = entry.limbo, []
        for job, outcome in limbo:
            if entry.kept:
                self._back(entry, job, outcome)
            else:
                self.scoring.finish(job, outcome)

    def _settle(self, entry: Entry) -> None:
        """Everything that could be done for a run was done."""
        self._forget(entry)
        if entry.late and not self._leaving:
            self._score_again(entry)
            return
        if entry.late:
            self._late(entry.trace_id, len(entry.late))
        entry.status = settled(entry)
        if entry.kept is not False:
            self._writer.save(entry)

    def _forget(self, entry: Entry) -> None:
        entries = self._live.get(entry.trace_id, [])
        if entry in entries:
            entries.remove(entry)
        if not entries:
            self._live.pop(entry.trace_id, None)

    def _send(self, entry: Entry, target: str, scored: ScoredRun, places: Sequence[str] | None) -> None:
        self._flights.start(scored, places, lambda missed: self._landed(entry, target, scored, missed))

    async def _deliver_to_lacking(self, entry: Entry, target: str, scored: ScoredRun) -> None:
        """A process ended on it before anyone knew which evaluations there would be: now it is known."""
        ids = [evaluation.evaluation_id for evaluation in scored.evaluations]
        self._send(entry, target, scored, await self._lacking(ids, entry.status.revision))

    def _landed(self, entry: Entry, target: str, scored: ScoredRun, missed: list[str]) -> None:
        if missed and entry.kept:
            entry.owed.append(Owed(target, tuple(missed), tuple(stored(e) for e in scored.evaluations)))
            entry.reason = entry.reason or f"not delivered to {', '.join(missed)}"
            if not self._leaving:
                entry.delay = max(entry.delay, fate.UNAVAILABLE_SECONDS)
        self.over(entry)

    # --- what comes back ---

    def _room(self) -> int:
        return 0 if self._leaving else max(1, self._capacity // 2) - self.scoring.waiting

    def _found(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            if entry.status.turn is not None:
                self._take_back(entry, entry.status.turn)
            elif entry.status.tasks is None:
                self._judge_noted(entry)
            elif entry.status.crashes:
                self._ask(self._resume_crashed(entry))
            else:
                self._resume(entry)

    def _take_back(self, entry: Entry, turn: Turn) -> None:
        """A run whose conversation waited in a process that has ended."""
        if self._leaving:
            return
        if turn.asked.keys() & self._rules.keys():
            self.turns.take_back(entry, turn)
        else:
            entry.status = fate.absent(entry.status)
            self._writer.save(entry)

    def _judge_noted(self, entry: Entry) -> None:
        """Its process ended within the grace: the rules were not asked yet."""
        if not self._leaving:
            self._noted[entry.spans[0].span_id] = entry
            self._judge(Closed(entry.spans, entry.links))

    def _ask(self, questions: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(questions)
        self._asking.add(task)
        task.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Future[None]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("destinations could not be asked what they have", exc_info=error)

    async def _resume_crashed(self, entry: Entry) -> None:
        """Its process may have ended between delivering and saying so: ask the destinations first."""
        lacking: dict[str, tuple[str, ...]] = {}
        expected = expected_ids(entry, self._rules, lambda: self._read(entry.spans, entry.links))
        for target, ids in expected.items():
            places = await self._lacking(ids, entry.status.revision)
            if places is not None:
                lacking[target] = tuple(places)
        entry.lacking = lacking
        self._resume(entry)

    def _resume(self, entry: Entry) -> None:
        """Score what is left of a run, and deliver what is owed."""
        if self._leaving:
            return
        self._live.setdefault(entry.trace_id, []).append(entry)
        entry.back, entry.owed, entry.failed, entry.reason = [], [], "", ""
        entry.burned, entry.delay = False, 0.0
        # One more, so that it cannot settle before all of it has begun.
        entry.open_targets = 1
        try:
            runs = judged_runs(entry, self._read(entry.spans, entry.links))
            picked, absent = pick_up(entry, runs, self._rules)
            self._redeliver(entry, runs)
            entry.open_targets += self.scoring.resume(picked, entry)
        except Exception as error:
            _logger.exception("a spooled run could not be taken up")
            entry.failed = f"{type(error).__name__}: {error}"[:500]
        else:
            if absent:
                entry.back += absent
                entry.reason, entry.delay = fate.ABSENT, fate.ABSENT_SECONDS
        self.over(entry)

    def _redeliver(self, entry: Entry, runs: Sequence[Run]) -> None:
        by_span = {run.root_span_id: run for run in runs}
        for owed in entry.status.owed:
            evaluations = tuple(restored(values) for values in owed.evaluations)
            run = by_span.get(owed.target) or replace(runs[0], root_span_id=owed.target)
            entry.open_targets += 1
            self._send(entry, owed.target, ScoredRun(run=run, evaluations=evaluations), owed.places)

    # --- late spans ---

    def _join(self, trace_id: str, late: Sequence[Late]) -> None:
        """Give late spans to the run that is being scored, or look for the one that was."""
        entry = home_of(self._live.get(trace_id, []), late)
        if entry is not None:
            welcome(entry, late)
        elif self._leaving:
            self._late(trace_id, len(late))
        else:
            self._writer.ask(trace_id, lambda found: self._rejoin(trace_id, late, found))

    def _rejoin(self, trace_id: str, late: Sequence[Late], found: Sequence[Entry]) -> None:
        home = home_of(found, late)
        for entry in found:
            if entry is not home:
                entry.status = replace(entry.status, state="done")
                self._writer.save(entry)
        if home is None:
            self._late(trace_id, len(late))
        else:
            welcome(home, late)
            self._score_again(home)

    def _score_again(self, entry: Entry) -> None:
        """Score a run once more, its late spans included: the next revision of the same evaluations."""
        entry.spans, entry.late, entry.grown = merged(entry.spans, entry.late), [], True
        status = entry.status
        entry.status = replace(
            status, state="open", free=False, left=None, owed=(), revision=status.revision + 1
        )
        entry.lacking = {}
        self._writer.save(entry)
        self._resume(entry)


def _task(job: Job) -> Task:
    return Task(job.name, job.run.root_span_id, job.sampled.probability, job.sampled.rule)


def _call_soon(loop: asyncio.AbstractEventLoop, function: Callable[[], object]) -> None:
    try:
        loop.call_soon_threadsafe(function)
    except RuntimeError:  # the loop is closed: we are leaving
        _logger.debug("the scoring thread has already ended")
