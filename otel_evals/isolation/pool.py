"""Scoring processes, seen from the engine: a scorer that has another process do the work.

Each process scores one run at a time, so whatever it does to its process, it does to that run alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
from typing import Any

from anyio import to_thread

from otel_evals.errors import JudgeUnavailableError
from otel_evals.isolation.child import Child, WorkerDiedError
from otel_evals.isolation.portable import pack
from otel_evals.isolation.records import pack_record
from otel_evals.isolation.worker import Raised
from otel_evals.model import NotScored, Run, Score, StepRecord
from otel_evals.scorer import Scorer, StepFailure

__all__ = ["START_SECONDS", "IsolatedScorer", "RemoteError", "most_processes"]

_logger = logging.getLogger(__name__)
_WORKER = "otel_evals.isolation.worker"
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0

START_SECONDS = 60.0
"""Seconds a process may take to start, imports of the scorer included."""


class RemoteError(Exception):
    """What a scorer raised in its process."""

    def __init__(self, error_type: str, message: str, steps: tuple[StepRecord, ...] = ()) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.steps = steps


def most_processes() -> int:
    """How many processes one scorer may have: one less than there are processors, at least 1, at most 4."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(4, usable - 1))


class IsolatedScorer(Scorer):
    """Scores in processes that are started when they are first needed, and replaced when they die.

    Called on one event loop only; `close` and `disown` when that loop does not run.

    Args:
        scorer: what scores.
        timeout: seconds after which a process that has not answered is killed.

    Raises:
        NotPortableError: the scorer cannot be sent to another process.
    """

    def __init__(self, scorer: Scorer, timeout: float) -> None:
        self.id, self.version, self.direction = scorer.id, scorer.version, scorer.direction
        self._packed = pack(scorer)
        self._timeout = timeout
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._deaths = 0

    @property
    def pids(self) -> list[int]:
        """The process ids of the processes there are."""
        return [child.pid for child in self._all]

    async def score(self, run: Run) -> Score | NotScored:
        """Have a process score a run.

        Raises:
            WorkerDiedError: the process died over it.
            RemoteError: the scorer raised something.
            JudgeUnavailableError: worth another attempt.
        """
        child = await self._ready_child()
        try:
            async with asyncio.timeout(self._timeout):
                reply = await to_thread.run_sync(_ask, child, run, abandon_on_cancel=True)
        except TimeoutError:
            self._discard(child)
            raise RemoteError("timeout", f"no score within {self._timeout:g} s") from None
        except WorkerDiedError as error:
            self._note_death(child, error)
            raise
        except BaseException:
            self._discard(child)
            raise
        self._deaths = 0
        self._idle.append(child)
        return _outcome(reply)

    def close(self) -> None:
        """End all processes."""
        children, self._all, self._idle = self._all, set(), []
        for child in children:
            child.close()

    def disown(self) -> None:
        """In a forked copy of this process: forget the processes without touching them."""
        children, self._all, self._idle = self._all, set(), []
        for child in children:
            child.disown()

    async def _ready_child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            self._note_death(child, WorkerDiedError(f"the idle scoring process {child.pid} died"))
        if self._deaths:
            await asyncio.sleep(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (self._deaths - 1)))
        return await self._started()

    async def _started(self) -> Child:
        child = Child(_WORKER, self._packed)
        self._all.add(child)
        try:
            async with asyncio.timeout(START_SECONDS):
                problem = pickle.loads(await to_thread.run_sync(child.begin, abandon_on_cancel=True))
        except WorkerDiedError as error:
            self._note_death(child, error)
            raise
        except BaseException:
            self._discard(child)
            raise
        if problem is not None:
            self._discard(child)
            raise RemoteError(problem.error_type, f"the scorer cannot be loaded: {problem.message}")
        return child

    def _note_death(self, child: Child, error: WorkerDiedError) -> None:
        self._deaths += 1
        if self._deaths == 1:
            _logger.warning("%s: %s; another one is started", self.id, error)
        self._discard(child)

    def _discard(self, child: Child) -> None:
        self._all.discard(child)
        child.kill()
        child.close()


def _ask(child: Child, run: Run) -> Any:
    return pickle.loads(child.ask(pack_record(run)))


def _outcome(reply: Any) -> Score | NotScored:
    if not isinstance(reply, Raised):
        return reply  # type: ignore[no-any-return]  # the lane checks what scorers return
    if not reply.unavailable:
        raise RemoteError(reply.error_type, reply.message, reply.steps)
    cause = JudgeUnavailableError(reply.message, retry_after=reply.retry_after)
    raise StepFailure(reply.message, steps=reply.steps) from cause
