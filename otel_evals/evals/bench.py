"""Scores runs that are finished already, with the live engine's rules, lanes, limits and destinations."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextvars import Context
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import TypeVar

from anyio.to_thread import current_default_thread_limiter

from otel_evals.assembly.live import Closed
from otel_evals.attachment import Attacher
from otel_evals.config import Config
from otel_evals.conversing import Conversing
from otel_evals.engine import Accounts, EngineLoop, Stats, Stories
from otel_evals.export import DestinationStats, FanOut
from otel_evals.judging import Judging, rule_names
from otel_evals.model import Evaluation, Run, ScoredRun

__all__ = ["Bench"]

_Item = TypeVar("_Item")
_NO_SPANS = Closed((), {})
_UNBOUNDED = 2**62
_AT_ONCE = 64
_FLUSH_EVERY = 1024


@dataclass(slots=True, eq=False)
class _Waiting:
    """A run that was handed in, and what came of it so far."""

    future: Future[tuple[Evaluation, ...]]
    left: int = 0
    """Judged spans to come."""
    there: set[str] = field(default_factory=set)
    """Judged spans that came."""
    evaluations: list[Evaluation] = field(default_factory=list)


class Bench:
    """Scores runs on an engine thread of its own; use as a context manager.

    The rules, their sampling, timeouts, retries and concurrency hold as they do live, and scored runs go to
    the configuration's destinations. Nothing is dropped for want of room, and nothing is written to
    OpenTelemetry. A conversation's pauses are those between the ends of its runs.

    Args:
        config: rules and destinations; what concerns capture, holding and the store is not looked at.
    """

    def __init__(self, config: Config) -> None:
        self.config = replace(
            config,
            queue_size=_UNBOUNDED,
            max_conversations=_UNBOUNDED,
            max_conversation_bytes=_UNBOUNDED,
            store=None,
        )
        self._accounts = Accounts(rule_names(config.rules))
        self._fan_out = FanOut(config.destinations, queue_size=_FLUSH_EVERY * 8)
        self._waiting: dict[str, _Waiting] = {}
        """By judged span."""
        self._asking: _Waiting | None = None
        """Whose rules are being asked just now."""
        self._engine: EngineLoop[object] = EngineLoop(lambda _: None, lambda: None, self._deliver)
        stories = Stories(1)
        self._judging = Judging(
            self.config,
            self._accounts,
            stories,
            Attacher(None, None, None, None),
            self._take,
            self._settled,
        )
        self._conversing = Conversing(self.config, self._judging, self._accounts, stories)
        self._of_conversations: dict[str, Evaluation] = {}
        """The newest of each, by evaluation id."""
        self._all_ended: Future[None] | None = None
        self._clock = 0.0

    def score(self, run: Run) -> Future[tuple[Evaluation, ...]]:
        """Hand in a run; its evaluations come in the order of the rules.

        A rule that does not apply, or does not sample the run, has none. A run of the same trace and root
        must not be handed in while it is being scored.
        """
        future: Future[tuple[Evaluation, ...]] = Future()
        future.set_running_or_notify_cancel()  # an evaluation that has begun is not called back
        Context().run(self._engine.call, lambda: self._judge(run, future))  # nothing of the caller's context
        return future

    def score_all(
        self,
        items: Iterable[tuple[_Item, Run]],
        at_once: int = _AT_ONCE,
        done: Callable[[], object] = lambda: None,
    ) -> Iterator[tuple[_Item, tuple[Evaluation, ...]]]:
        """Score runs as they are read, so many at a time; items come in the order of their runs' ends."""
        running: dict[Future[tuple[Evaluation, ...]], _Item] = {}
        for count, (item, run) in enumerate(items, 1):
            running[self.score(run)] = item
            if count % _FLUSH_EVERY == 0:
                self.flush()
            if len(running) >= at_once:
                yield from _ended(running, done)
        while running:
            yield from _ended(running, done)

    def end_conversations(self) -> tuple[Evaluation, ...]:
        """Have the conversations judged that have not ended yet; returns the newest evaluations of all."""
        left = any(rule.scope == "conversation" for rule in self.config.rules)
        while left:
            ended: Future[None] = Future()
            self._all_ended = ended
            self._engine.call(self._end_conversations)
            ended.result()
            self.flush()
            left = self._conversing.waiting > 0
        return tuple(self._of_conversations.values())

    def stats(self) -> Stats:
        """The books at this moment."""
        return self._accounts.snapshot()

    def destination_stats(self) -> dict[str, DestinationStats]:
        """What became of the scored runs, by destination."""
        return dict(self._fan_out.stats())

    def flush(self, timeout: float = 60.0) -> bool:
        """Deliver what is scored; whether all of it was accepted within `timeout` seconds."""
        return self._engine.run(self._fan_out.force_flush(timeout), timeout + 1) is True

    def close(self, timeout: float = 60.0) -> None:
        """Deliver within `timeout` seconds what is scored, and end the thread."""
        self._engine.run(self._finish(timeout), timeout + 1)
        self._engine.stop(1.0)
        self._judging.close()

    def __enter__(self) -> Bench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # --- on the engine's thread ---

    async def _deliver(self) -> None:
        limiter = current_default_thread_limiter()
        limiter.total_tokens = max(limiter.total_tokens, sum(r.concurrency for r in self.config.rules))
        await asyncio.gather(self._judging.prepare(), self._fan_out.run())

    async def _finish(self, seconds: float) -> None:
        self._judging.abort("shutdown")
        await self._fan_out.shutdown(seconds)

    def _judge(self, run: Run, future: Future[tuple[Evaluation, ...]]) -> None:
        self._asking = waiting = _Waiting(future)
        try:
            targets = self._judging.judge([run], _NO_SPANS)
        except Exception as error:
            future.set_exception(error)
            return
        finally:
            self._asking = None
        waiting.left += len(targets)
        self._waiting.update({run.trace_id + target: waiting for target in targets - waiting.there})
        self._settle(waiting)
        self._clock = max(self._clock, (run.end_time or run.start_time) / 1e9)
        self._conversing.judge_due(self._clock)
        self._conversing.take([run], self._clock)

    def _end_conversations(self) -> None:
        self._conversing.judge_due(float("inf"), _FLUSH_EVERY)
        self._settled()

    def _settled(self) -> None:
        if self._all_ended is not None and not self._accounts.pending:
            self._all_ended.set_result(None)
            self._all_ended = None

    def _take(self, scored: ScoredRun) -> None:
        self._fan_out.put(scored)
        if scored.run.turns:
            self._keep_newest(scored.evaluations)
            return
        target = scored.run.root_span_id
        waiting = self._waiting.pop(scored.run.trace_id + target, None) or self._asking
        if waiting is not None:
            waiting.left -= 1
            waiting.there.add(target)
            waiting.evaluations += scored.evaluations
            self._settle(waiting)

    def _keep_newest(self, evaluations: Iterable[Evaluation]) -> None:
        for evaluation in evaluations:
            known = self._of_conversations.get(evaluation.evaluation_id)
            if known is None or known.revision < evaluation.revision:
                self._of_conversations[evaluation.evaluation_id] = evaluation

    def _settle(self, waiting: _Waiting) -> None:
        """Answer once every judged span is there."""
        if waiting is not self._asking and waiting.left == 0:
            order = {rule.scorer.id: place for place, rule in enumerate(self.config.rules)}
            found = sorted(waiting.evaluations, key=lambda e: order[e.scorer_id])
            waiting.future.set_result(tuple(found))


def _ended(
    running: dict[Future[tuple[Evaluation, ...]], _Item], done: Callable[[], object]
) -> Iterator[tuple[_Item, tuple[Evaluation, ...]]]:
    ended, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in ended:
        done()
        yield running.pop(future), future.result()
