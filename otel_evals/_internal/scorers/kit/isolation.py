"""Scorers in processes of their own: a crash or a hang costs one run.

anyio keeps the processes, which are new interpreters. They import the program's main module, as those of
multiprocessing do; `configure` has no effect there.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import io
import os
import pickle
import signal
import sys
import time
from operator import attrgetter
from typing import Any, NamedTuple

from anyio import BrokenWorkerProcess, CapacityLimiter, to_process
from opentelemetry.context import attach

from otel_evals._internal.model import Run, ScorerFailure
from otel_evals._internal.redaction.redactor import current_redaction, use_redaction
from otel_evals._internal.scorers.kit.facts import ScorerFacts
from otel_evals._internal.scorers.kit.outcome import asked_wait, failure_of, root_cause
from otel_evals._internal.scorers.kit.scorer import FunctionScorer, Scorer, StepFailure, to_outcome
from otel_evals._internal.trust.marks import mark
from otel_evals._internal.util.error_log import content_is_shown, show_content
from otel_evals._internal.util.installed import package_hint
from otel_evals._internal.util.plain import plain_text, type_name
from otel_evals.errors import JudgeUnavailableError

_NICE = 5
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG."""
_IDLE_SECONDS = 250.0
"""Seconds without a run after which the processes may be gone: anyio ends them after 300."""
START_SECONDS = 60.0
"""Timeout for starting a process, including the scorer's imports."""
_WORKER = "anyio.to_process"


class NotPortableError(Exception):
    """An object cannot be sent to another process; the message has the reason and the fix."""


class ProcessDiedError(Exception):
    """A process ended before it answered."""

    error_type = "process_died"


def is_child() -> bool:
    """Return True in a worker process, which scores for its parent and must not configure scoring."""
    return sys.orig_argv[-2:] == ["-m", _WORKER]


def most_processes() -> int:
    """Return the maximum number of processes of a scorer: one less than the CPUs, from 1 to 4."""
    # The process may be bound to fewer CPUs than the machine has.
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(4, usable - 1))


# --- in the parent ---


class IsolatedScorer(Scorer):
    """Scores in processes that are started on first use and replaced after they die.

    Args:
        scorer: the scorer to run there.
        facts: its properties.
        timeout: seconds after which a process that has not answered is killed.

    Raises:
        NotPortableError: the scorer cannot be sent to another process.
    """

    def __init__(self, scorer: Scorer, facts: ScorerFacts, timeout: float) -> None:
        self.id, self.version, self.direction = facts[:3]
        # Packed at once: a scorer that cannot be sent fails here and not at its first run.
        self._packed = pack((scorer, current_redaction(), content_is_shown()))
        self._timeout = timeout
        self._running = self._started = 0
        """Runs in processes now, and processes that have answered."""
        self._last = 0.0

    async def score(self, run: Run) -> Any:
        """Score a run in a process; an exception that the scorer raised there is returned as a failure.

        Raises:
            ProcessDiedError: the process died while it scored the run.
            StepFailure: the judge was unavailable; its cause is a JudgeUnavailableError.
        """
        if time.monotonic() - self._last > _IDLE_SECONDS:
            self._started = 0
        self._running += 1
        # With more runs than processes that have answered, this run may have to wait for a start.
        starts = 0.0 if self._running <= self._started else START_SECONDS
        try:
            async with asyncio.timeout(self._timeout + starts):
                free = CapacityLimiter(1)  # a rule's slots limit its processes
                reply = await to_process.run_sync(_score, self._packed, run, cancellable=True, limiter=free)
        except BaseException as error:
            # anyio kills the process of a run that is cancelled: none is known to be left.
            self._started = 0
            if isinstance(error, TimeoutError):
                return ScorerFailure(error_type="timeout", message=f"no score within {self._timeout:g} s")
            if isinstance(error, BrokenWorkerProcess):
                raise ProcessDiedError(_death_of(self.id, error)) from None
            raise
        finally:
            self._running -= 1
            self._last = time.monotonic()
        self._started = max(self._started, self._running + 1)
        return _outcome(reply)


def _death_of(scorer_id: str, error: BrokenWorkerProcess) -> str:
    cause = error.__cause__
    # anyio gives no message if the process died later.
    if not error.args or cause is None:
        return f"the process that was scoring {scorer_id} died"
    return (
        f"a process for {scorer_id} could not start: {type_name(cause)}: {plain_text(cause, 300)}; "
        "it imports your main module: put what that starts below `if __name__ == '__main__':`"
    )


def pack(thing: Any) -> bytes:
    """Pickle an object for another process with the same packages and `sys.path`, or raise."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(thing)
        return buffer.getvalue()
    except Exception as error:  # a __reduce__ may raise anything
        problem = error
    try:
        import cloudpickle
    except ImportError:
        fix = f"move it to the top level of an importable module, or {package_hint('cloudpickle')}"
        raise NotPortableError(f"cannot be sent to another process ({problem}); {fix}") from problem
    try:
        return bytes(cloudpickle.dumps(thing))
    except Exception as error:
        fix = "build it from plain values, and open files, locks and connections on first use"
        raise NotPortableError(f"cannot be sent to another process ({error}); {fix}") from error


class _Pickler(pickle.Pickler):
    """Pickles a scorer made by `@scorer` by the name of its function, under which its module has it."""

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, FunctionScorer):
            module, name = thing.function.__module__, thing.function.__qualname__
            if module == "__main__" or attrgetter(name)(sys.modules[module]) is not thing:
                raise pickle.PicklingError(f"{name!r} of {module!r} has no name that can be imported")
            return _imported, (module, name)
        return NotImplemented


def _imported(module: str, name: str) -> Any:
    __import__(module)
    return attrgetter(name)(sys.modules[module])


def _outcome(reply: Any) -> Any:
    if not isinstance(reply, Raised):
        return reply  # the worker checks what scorers return
    failure = reply.failure
    cause = JudgeUnavailableError(failure.message, retry_after=reply.wait or None)
    raise StepFailure(failure.message, steps=failure.steps) from cause


# --- in the worker ---


class Raised(NamedTuple):
    """An unavailable judge, which is asked again."""

    failure: ScorerFailure
    wait: float
    """Seconds."""


_scorers: dict[bytes, tuple[Scorer, Any, bool]] = {}
"""By their pickles, which come with each run."""
_runner: asyncio.Runner | None = None


def _score(packed: bytes, run: Run) -> Any:
    """Score a run; returns an exception as a failure or a `Raised`."""
    global _runner
    try:
        if packed not in _scorers:
            _set_up()
            # After the set-up, since this imports the scorer's modules.
            loaded = pickle.loads(packed)
            loaded[0].prepare()
            _scorers[packed] = loaded
        scorer, redaction, content = _scorers[packed]
        # For each run: one process serves several scorers, each with its own settings.
        use_redaction(redaction)
        show_content(content)
        # One loop for all runs: connections that a scorer keeps belong to it.
        _runner = _runner or asyncio.Runner()
        reply: Any = _runner.run(_scored(scorer, run))
    except BaseException as error:
        reply = _raised(error)
    try:
        pickle.dumps(reply)
    except Exception:
        return _raised(TypeError("its result cannot be sent to this process"))
    return reply


async def _scored(scorer: Scorer, run: Run) -> Any:
    attach(mark())  # for each run, since old marks expire
    return to_outcome(await scorer.score(run))


def _set_up() -> None:
    """Leave signals to the parent, which still needs this process, and the processor to the application."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    os.environ["OTEL_SDK_DISABLED"] = "true"
    # Requests and replies move to files of their own, which native code and child processes do not have.
    streams: Any = sys.__stdin__, sys.__stdout__
    for stream in streams:
        file = getattr(stream.buffer, "raw", stream.buffer)  # Python may run unbuffered
        file.__init__(os.dup(file.fileno()), file.mode)
    devnull = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):  # the parent does not read errors, and a full pipe would block
        os.dup2(devnull, descriptor)
    if sys.platform == "linux":  # elsewhere a busy process ends after its run
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if hasattr(os, "nice"):
        with contextlib.suppress(OSError):
            os.nice(_NICE)


def _raised(error: BaseException) -> Any:
    failure, wait = failure_of(error), asked_wait(root_cause(error))
    return failure if wait is None else Raised(failure, wait)
