"""SIGTERM, chained: a graceful shutdown comes first, then whatever the signal did before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from otel_evals._internal.live.signals import OneAtATime, chain_sigterm
from tests.support.waits import SECONDS

PROGRAM = """
import asyncio, os, signal, sys
from otel_evals._internal.live.signals import OneAtATime, chain_sigterm

def say(word):
    print(word, flush=True)

{before}
chained = chain_sigterm(lambda: say("leave"), lambda: say("flush"), 5.0, OneAtATime())
say(f"chained {{chained}}")
{after}
os.kill(os.getpid(), signal.SIGTERM)
say("goes on")
"""


def ends(before: str = "", after: str = "") -> tuple[int, list[str]]:
    """A program's exit status and what it said."""
    program = PROGRAM.format(before=before, after=after)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout.split("\n")[:-1]


def test_by_default_the_process_leaves_and_then_ends_by_the_signal() -> None:
    assert ends() == (-signal.SIGTERM, ["chained True", "leave"])


def test_an_applications_handler_decides_and_leaving_comes_last() -> None:
    handler = "signal.signal(signal.SIGTERM, lambda *_: say('handled'))"
    assert ends(handler) == (0, ["chained True", "flush", "handled", "goes on", "leave"])


def test_a_program_that_restores_the_default_and_raises_it_again_does_not_cut_leaving_short() -> None:
    """As servers do once they have stopped serving: on the main thread, where it waits until the end."""
    after = """
os.kill(os.getpid(), signal.SIGTERM)
say("served")
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.raise_signal(signal.SIGTERM)
say("goes on")
sys.exit()
"""
    code, said = ends("signal.signal(signal.SIGTERM, lambda *_: say('handled'))", after)
    assert (code, said) == (
        -signal.SIGTERM,
        ["chained True", "flush", "handled", "served", "goes on", "leave"],
    )


def test_where_it_is_ignored_nothing_is_set() -> None:
    assert ends("signal.signal(signal.SIGTERM, signal.SIG_IGN)") == (0, ["chained False", "goes on"])


@pytest.fixture
def restored() -> Iterator[None]:
    before: Any = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("restored")
def test_an_event_loop_that_serves_is_not_waited_for() -> None:
    """Its requests are to be answered while the flush goes on beside it."""
    import asyncio

    release, flushed = threading.Event(), threading.Event()
    handled: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: handled.append(number))

    def flush() -> None:
        release.wait(10)
        flushed.set()

    assert chain_sigterm(lambda: None, flush, 10.0, OneAtATime())

    async def serve() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0)
        assert handled == [signal.SIGTERM]
        assert not flushed.is_set()

    try:
        asyncio.run(serve())
    finally:
        release.set()
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    assert flushed.wait(10)


def test_only_the_main_thread_can_set_it(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[bool] = []
    thread = threading.Thread(
        target=lambda: answers.append(chain_sigterm(lambda: 0, lambda: 0, 1.0, OneAtATime()))
    )
    thread.start()
    thread.join()
    assert answers == [False]
    assert "only the main thread" in caplog.text
