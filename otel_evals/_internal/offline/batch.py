"""Scores finished runs in batches, with the evaluator and the destinations of live scoring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from math import inf
from typing import TypeVar

from anyio.to_thread import current_default_thread_limiter

from otel_evals._internal.accounting.counters import Stats
from otel_evals._internal.accounting.ledger import Ledger
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.delivery_queue import Delivered, taken_from
from otel_evals._internal.deliver.destination import DestinationStats
from otel_evals._internal.deliver.fanout import FanOut
from otel_evals._internal.evaluate.conversation_gatherer import ConversationGatherer, JoinedConversation
from otel_evals._internal.evaluate.evaluator import Evaluator
from otel_evals._internal.evaluate.job import Job, Target
from otel_evals._internal.evaluate.progress import Progress
from otel_evals._internal.evaluate.queue_interface import DurableQueue
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals._internal.model import Evaluation, Outcome, Run, ScoredRun
from otel_evals._internal.pipeline.engine_thread import EngineThread
from otel_evals._internal.redaction.redactor import private_context
from otel_evals._internal.util.calls import hide_task

_Item = TypeVar("_Item")
_NO_SPANS = SpanGroup((), {})
_UNBOUNDED = 2**62
_AT_ONCE = 64
_FLUSH_EVERY = 1024


@dataclass(slots=True, eq=False)
class _Waiting:
    """A submitted run and its evaluations so far."""

    future: Future[tuple[Evaluation, ...]]
    awaited: set[str] = field(default_factory=set)
    """Judged spans with incomplete evaluations."""
    evaluations: list[Evaluation] = field(default_factory=list)


class BatchScorer:
    """Scores runs on a separate engine thread; use it as a context manager.

    Rules, sampling, timeouts, retries and concurrency apply as they do live, and scored runs are delivered to
    the configured destinations. The queue is unbounded, and nothing is written to OpenTelemetry. A
    conversation becomes idle by the end times of its runs. `progress` has earlier evaluations to skip; it is
    closed with the scorer.
    """

    def __init__(self, config: Config, progress: Progress | None = None) -> None:
        unbounded = dict.fromkeys(("queue_size", "max_conversations", "max_conversation_bytes"), _UNBOUNDED)
        self.config = replace(config, store=None, **unbounded)  # type: ignore[arg-type]
        self._ledger = Ledger([rule.name for rule in config.rules], max_traces=1)
        self.progress = progress or Progress()
        self._delivered: asyncio.Queue[Delivered] = asyncio.Queue()
        self._fan_out = FanOut(config.destinations, queue_size=_FLUSH_EVERY * 8, results=self._delivered)
        self._waiting: dict[str, _Waiting] = {}
        """By trace id and judged span."""
        private = private_context(config.redact, content=config.capture_content)
        self._thread: EngineThread[object] = EngineThread(self, context=private)
        attacher, store = Attacher(None, None, None, None), _Later(self)
        self._evaluator = Evaluator(
            self.config, self._ledger, attacher, self._deliver, store, progress=self.progress
        )
        self._conversations = ConversationGatherer(self.config, self._ledger, store)
        self._of_conversations: dict[str, Evaluation] = {}
        """The newest revision of each, by evaluation id."""
        self._clock = 0.0
        if progress is not None:
            self._thread.run(self._ask_destinations(), inf)

    def score(self, run: Run) -> Future[tuple[Evaluation, ...]]:
        """Submit a run; its evaluations are in the order of the rules.

        A rule that does not apply to the run, or does not sample it, has no evaluation. A run with the same
        root must not be submitted while it is being scored.
        """
        future: Future[tuple[Evaluation, ...]] = Future()
        future.set_running_or_notify_cancel()  # it cannot be cancelled any more
        self._thread.call(lambda: self._take(run, future))
        return future

    def score_all(
        self,
        items: Iterable[tuple[_Item, Run]],
        at_once: int = _AT_ONCE,
        done: Callable[[], object] = lambda: None,
    ) -> Iterator[tuple[_Item, tuple[Evaluation, ...]]]:
        """Score runs as they are read, `at_once` at a time; yield items in the order in which they finish.

        Stops reading when `progress` has stopped.
        """
        running: dict[Future[tuple[Evaluation, ...]], _Item] = {}

        def ended() -> Iterator[tuple[_Item, tuple[Evaluation, ...]]]:
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                done()
                yield running.pop(future), future.result()

        for count, (item, run) in enumerate(items, 1):
            running[self.score(run)] = item
            if count % _FLUSH_EVERY == 0:
                self.flush()
            if len(running) >= at_once:
                yield from ended()
            if self.progress.stopped:
                break
        while running:
            yield from ended()

    def end_conversations(self) -> tuple[Evaluation, ...]:
        """Judge the conversations that are not idle yet; return the newest evaluations of all of them."""
        # Conversations that were not read completely are judged the next time.
        left = not self.progress.stopped and any(r.scope == "conversation" for r in self.config.rules)
        while left:
            self._thread.run(self._end_conversations(), inf)
            self.flush()
            left = self._conversations.waiting > 0
        return tuple(self._of_conversations.values())

    def stats(self) -> Stats:
        return self._ledger.stats()

    def destination_stats(self) -> dict[str, DestinationStats]:
        return dict(self._fan_out.stats())

    def flush(self, timeout: float = 60.0) -> bool:
        """Deliver all scored runs; return True if all were accepted within `timeout` seconds."""
        return self._thread.run(self._flush(timeout), timeout + 1) is True

    def close(self, timeout: float = 60.0) -> None:
        """Deliver scored runs within `timeout` seconds, and end the thread."""
        self._thread.run(self._finish(timeout), timeout + 1)
        self._thread.stop(1.0)
        self._evaluator.scheduler.close()
        self.progress.close()

    def __enter__(self) -> BatchScorer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- on the engine's thread ---

    def take(self, items: Sequence[object]) -> float:
        """Do nothing: spans are not captured."""
        return inf

    def tick(self) -> float:
        return inf

    async def run(self) -> None:
        limiter = current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, sum(r.concurrency for r in self.config.rules))
        await asyncio.gather(self._evaluator.prepare(), self._fan_out.run(), self._note_deliveries())

    def end(self, items: Sequence[object]) -> None:
        """Do nothing: runs arrive by calls only."""

    async def _ask_destinations(self) -> None:
        """Ask destinations for evaluations that were delivered right before an earlier process ended."""
        for name in self.destination_stats():
            for id, revision in self.progress.undelivered(name):
                if name not in (await self._fan_out.lacking([id], revision) or ()):
                    self.progress.delivered(name, [(id, revision)])

    async def _note_deliveries(self) -> None:
        """Note how deliveries ended, until cancelled."""
        hide_task()
        while True:
            self._note(await self._delivered.get())

    def _note(self, *delivered: Delivered) -> None:
        for name, batch, end in (*delivered, *taken_from(self._delivered)):
            if end == "exported":
                evaluations = [each for scored in batch for each in scored.evaluations]
                self.progress.delivered(name, [(e.evaluation_id, e.revision) for e in evaluations])

    async def _flush(self, seconds: float) -> bool:
        delivered = await self._fan_out.force_flush(seconds)
        self._note()
        return delivered

    async def _finish(self, seconds: float) -> None:
        self._evaluator.abort("shutdown")
        await self._fan_out.shutdown(seconds)
        self._note()

    def _take(self, run: Run, future: Future[tuple[Evaluation, ...]]) -> None:
        waiting = _Waiting(future)
        try:
            targets = self._evaluator.score([run], _NO_SPANS)
        except Exception as error:
            future.set_exception(error)
            return
        for target in targets:
            if target.awaited:
                waiting.awaited.add(target.span_id)
                self._waiting[run.trace_id + target.span_id] = waiting
            else:
                waiting.evaluations += target.evaluations
        self._answer(waiting)
        self._clock = max(self._clock, (run.end_time or run.start_time) / 1e9)
        self._score_conversations(self._conversations.due(self._clock, self._evaluator.scheduler.room))
        self._score_conversations(self._conversations.take([run], self._clock))

    async def _end_conversations(self) -> None:
        self._score_conversations(self._conversations.due(inf, _FLUSH_EVERY))
        await self._evaluator.settled(inf)

    def _score_conversations(self, due: Iterable[JoinedConversation]) -> None:
        for joined in due:
            self._evaluator.score_conversation(joined)

    def _deliver(self, scored: ScoredRun) -> None:
        if scored.evaluations:
            for part, name in self.progress.lacking(scored, self.destination_stats()):
                self._fan_out.put(part, None if name is None else [name])
        if scored.run.turns:
            for evaluation in scored.evaluations:
                known = self._of_conversations.get(evaluation.evaluation_id)
                if known is None or known.revision < evaluation.revision:
                    self._of_conversations[evaluation.evaluation_id] = evaluation
            return
        span_id = scored.run.root_span_id
        waiting = self._waiting.pop(scored.run.trace_id + span_id, None)
        if waiting is not None:
            waiting.awaited.discard(span_id)
            waiting.evaluations += scored.evaluations
            self._answer(waiting)

    def _answer(self, waiting: _Waiting) -> None:
        """Resolve the future when all judged spans are scored."""
        if not waiting.awaited:
            order = {rule.scorer_id: place for place, rule in enumerate(self.config.rules)}
            found = sorted(waiting.evaluations, key=lambda e: order[e.scorer_id])
            waiting.future.set_result(tuple(found))


class _Later(DurableQueue):
    """Keeps nothing: unscored runs are read again the next time."""

    def __init__(self, batch: BatchScorer) -> None:
        self._batch = batch

    def defer(self, job: Job, outcome: Outcome) -> bool:
        reason = self._batch.progress.leaves(outcome)
        if reason is not None:
            self._batch._evaluator.withdraw(job, reason)
        return reason is not None

    def deliver(self, target: Target) -> bool:
        self._batch._deliver(ScoredRun(run=target.run, evaluations=tuple(target.evaluations)))
        return True
