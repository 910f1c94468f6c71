"""The current rules, and earlier rules until all their sampled evaluations have ended.

Used on the engine's thread only, unless a docstring says otherwise.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence

from otel_evals._internal.config.options import Config
from otel_evals._internal.evaluate.evaluator import Evaluator
from otel_evals._internal.evaluate.job import Job
from otel_evals._internal.evaluate.queue_interface import Resumption
from otel_evals._internal.model import Loss, Outcome, Run
from otel_evals._internal.sampling.consistent import is_sampled

_RAISES = 16
"""Number of remembered increases of the highest sampling probability."""


class RuleSets:
    """An evaluator for each set of rules; `make` creates it from a configuration."""

    def __init__(self, config: Config, make: Callable[[Config], Evaluator]) -> None:
        self._make = make
        self._ceiling = config.ceiling
        self.raised: deque[tuple[int, float]] = deque(maxlen=_RAISES)
        """Time of each increase of the highest sampling probability, and the probability before it."""
        self._tasks: set[asyncio.Future[None]] = set()
        self.current = make(config)
        self.earlier: list[Evaluator] = []

    def use(self, config: Config) -> None:
        """Switch to other rules; sampled evaluations end under the rules that sampled them."""
        if config.ceiling > self._ceiling:
            self.raised.append((time.time_ns(), self._ceiling))
        self._ceiling = config.ceiling
        self.earlier.append(self.current)
        self.current = self._make(config)
        self._spawn(self.current.prepare())

    def _of(self, job: Job) -> Evaluator:
        return next((each for each in self.earlier if job in each.live), self.current)

    def whole(self, runs: Sequence[Run]) -> tuple[Sequence[Run], list[Loss]]:
        """Return the runs whose spans were all kept, and the losses of the others.

        Spans of a trace are not kept if no rule can sample it. If later rules can, its runs may lack spans.
        """
        partial = [run for run in runs if self._is_partial(run)]
        if not partial:
            return runs, []
        losses = [Loss("run", "began_before_reload", run.trace_id) for run in partial]
        return [run for run in runs if run not in partial], losses

    def _is_partial(self, run: Run) -> bool:
        trace_id, state = int(run.trace_id, 16), run.trace_state
        return any(run.start_time < when and not is_sampled(c, trace_id, state) for when, c in self.raised)

    def retire(self) -> None:
        """Drop earlier rules without pending evaluations."""
        for each in [each for each in self.earlier if not each.live]:
            self.earlier.remove(each)
            self._spawn(asyncio.to_thread(each.scheduler.close))

    def resume(self, resumptions: Sequence[Resumption]) -> list[Job]:
        return self.current.resume(resumptions)

    def submit(self, jobs: Sequence[Job]) -> None:
        self.current.submit(jobs)

    def end(self, job: Job, outcome: Outcome) -> None:
        self._of(job).end(job, outcome)

    def withdraw(self, job: Job, reason: str) -> None:
        """End a job without an outcome: the durable queue retries it later."""
        self._of(job).withdraw(job, reason)

    @property
    def waiting(self) -> int:
        return sum(each.scheduler.waiting for each in self._all)

    @property
    def waiting_bytes(self) -> int:
        return sum(each.scheduler.bytes for each in self._all)

    def running(self) -> set[tuple[str, str]]:
        return {pair for each in self._all for pair in each.scheduler.running()}

    def abort(self, reason: str) -> None:
        for each in self._all:
            each.abort(reason)

    def close(self) -> None:
        for each in self._all:
            each.scheduler.close()

    def disown(self) -> None:
        for each in self._all:
            each.scheduler.disown()

    @property
    def _all(self) -> list[Evaluator]:
        return [*self.earlier, self.current]

    def _spawn(self, coroutine: object) -> None:
        task = asyncio.ensure_future(coroutine)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
