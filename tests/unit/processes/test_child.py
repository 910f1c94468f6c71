"""A child process and its parent: frames go back and forth, and nothing but the parent ends it."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from typing import Any

import pytest

from otel_evals import Run, scorer
from otel_evals._internal.processes.child import Child, ProcessDiedError, is_child
from otel_evals._internal.processes.parent import signals_blocked
from otel_evals._internal.processes.portable import pack
from otel_evals._internal.redaction.redactor import current_redaction
from tests.support.runs import a_run

WORKER = "otel_evals._internal.engine.isolated_worker"


@scorer(id="says", version="1")
def says(run: Run) -> float:
    """Whether it knows that it is a child process, where no signal is blocked."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ()) if hasattr(signal, "pthread_sigmask") else ()
    return float(is_child() and not blocked)


@scorer(id="sleeps", version="1")
def sleeps(run: Run) -> float:
    """Take longer than any test."""
    time.sleep(60)
    return 1.0


def started(scorer: Any = says) -> Child:
    return Child(WORKER, pack((scorer, current_redaction(), True)))


def ask(child: Child) -> float:
    return float(pickle.loads(child.ask(pickle.dumps(a_run()))).value)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_do_not_end_it_not_even_while_it_starts(number: signal.Signals) -> None:
    child = started()
    try:
        os.kill(child.pid, number)  # its interpreter has hardly begun
        assert pickle.loads(child.begin()) is None
        os.kill(child.pid, number)
        assert ask(child) == 1.0
        assert child.alive
    finally:
        child.close()
    with pytest.raises(ProcessLookupError):
        os.kill(child.pid, 0)


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="needs signal masks")
def test_starting_it_leaves_the_parents_own_signals_as_they_were() -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with signals_blocked():
        inside = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert inside == before | {signal.SIGINT, signal.SIGTERM}
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
    assert not is_child()


def test_whoever_waits_for_one_that_is_killed_is_told() -> None:
    child = started(sleeps)
    try:
        child.begin()
        threading.Timer(0.05, child.kill).start()
        with pytest.raises(ProcessDiedError, match=r"died \(killed by signal 9\)|killed by signal 9"):
            ask(child)
        with pytest.raises(ProcessDiedError):
            child.ask(b"")
        assert not child.alive
    finally:
        child.close()
