"""A scorer that runs in child processes, one run at a time: a crash or a hang costs that run alone."""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
from typing import Any

from otel_evals._internal.engine.isolated_worker import Raised
from otel_evals._internal.model import NotScored, Run, Score, StepRecord
from otel_evals._internal.processes.child import Child, ProcessDiedError
from otel_evals._internal.processes.portable import pack
from otel_evals._internal.redaction.redactor import current_redaction
from otel_evals._internal.scoring.scorer import Scorer, ScorerFacts, StepFailure
from otel_evals._internal.util.calls import in_thread
from otel_evals._internal.util.error_log import content_is_shown
from otel_evals._internal.util.retry import backoff
from otel_evals.errors import JudgeUnavailableError

_logger = logging.getLogger(__name__)
_WORKER = "otel_evals._internal.engine.isolated_worker"
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 5.0

START_SECONDS = 60.0
"""Timeout for starting a process, including the scorer's imports."""


class RemoteError(Exception):
    """An exception that a scorer raised in its process."""

    def __init__(self, error_type: str, message: str, steps: tuple[StepRecord, ...] = ()) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.steps = steps


def most_processes() -> int:
    """Return the maximum number of processes of a scorer: one less than the CPUs, from 1 to 4."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(4, usable - 1))


class IsolatedScorer(Scorer):
    """Scores in processes that are started on first use and replaced after they die.

    `score` is called on one event loop only; `close` and `disown` when that loop is not running.

    Args:
        scorer: the scorer to run there.
        facts: its properties.
        timeout: seconds after which a process that has not answered is killed.

    Raises:
        NotPortableError: the scorer cannot be sent to another process.
    """

    def __init__(self, scorer: Scorer, facts: ScorerFacts, timeout: float) -> None:
        self.id, self.version, self.direction = facts[:3]
        self._packed = pack((scorer, current_redaction(), content_is_shown()))
        self._timeout = timeout
        self._idle: list[Child] = []
        self._all: set[Child] = set()
        self._deaths = 0

    @property
    def pids(self) -> list[int]:
        return [child.pid for child in self._all]

    async def score(self, run: Run) -> Score | NotScored:
        """Score a run in a process.

        Raises:
            ProcessDiedError: the process died while it scored the run.
            RemoteError: the scorer raised an exception, or timed out.
            StepFailure: the judge was unavailable; its cause is a JudgeUnavailableError.
        """
        child = await self._ready_child()
        try:
            async with asyncio.timeout(self._timeout):
                reply = await in_thread(_ask, child, run, abandon_on_cancel=True)
        except TimeoutError:
            self._discard(child)
            raise RemoteError("timeout", f"no score within {self._timeout:g} s") from None
        except ProcessDiedError as error:
            self._note_death(child, error)
            raise
        except BaseException:
            self._discard(child)
            raise
        self._deaths = 0
        self._idle.append(child)
        return _outcome(reply)

    def close(self) -> None:
        for child in self._forget_all():
            child.close()

    def disown(self) -> None:
        """In a forked child: leave the processes to the parent."""
        for child in self._forget_all():
            child.disown()

    def _forget_all(self) -> set[Child]:
        children, self._all, self._idle = self._all, set(), []
        return children

    async def _ready_child(self) -> Child:
        while self._idle:
            child = self._idle.pop()
            if child.alive:
                return child
            self._note_death(child, ProcessDiedError(f"the idle scoring process {child.pid} died"))
        if self._deaths:
            await asyncio.sleep(
                backoff(self._deaths, first=_FIRST_PAUSE, longest=_LONGEST_PAUSE, draw=lambda: 1.0)
            )
        return await self._started()

    async def _started(self) -> Child:
        child = Child(_WORKER, self._packed)
        self._all.add(child)
        try:
            async with asyncio.timeout(START_SECONDS):
                problem = pickle.loads(await in_thread(child.begin, abandon_on_cancel=True))
        except ProcessDiedError as error:
            self._note_death(child, error)
            raise
        except BaseException:
            self._discard(child)
            raise
        if problem is not None:
            self._discard(child)
            raise RemoteError(problem.error_type, f"the scorer cannot be loaded: {problem.message}")
        return child

    def _note_death(self, child: Child, error: ProcessDiedError) -> None:
        self._deaths += 1
        if self._deaths == 1:
            _logger.warning("%s: %s; starting another one", self.id, error)
        self._discard(child)

    def _discard(self, child: Child) -> None:
        self._all.discard(child)
        child.kill()
        child.close()


def _ask(child: Child, run: Run) -> Any:
    return pickle.loads(child.ask(pickle.dumps(run)))


def _outcome(reply: Any) -> Score | NotScored:
    if not isinstance(reply, Raised):
        return reply  # type: ignore[no-any-return]  # the worker checks what scorers return
    if not reply.unavailable:
        raise RemoteError(reply.error_type, reply.message, reply.steps)
    cause = JudgeUnavailableError(reply.message, retry_after=reply.retry_after)
    raise StepFailure(reply.message, steps=reply.steps) from cause
