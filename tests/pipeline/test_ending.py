"""At the end every run whose root was captured is in the books once, however little time there is."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_evals import Rule, Run, Stats, sampling
from otel_evals.scorers import scorer
from tests.support.traffic import Live
from tests.support.waits import SECONDS, eventually


def slow(seconds: float) -> Any:
    """A scorer that keeps the engine's thread for so long per run."""

    @scorer(id="slow", version="1", inline=True)
    def judge(run: Run) -> float:
        time.sleep(seconds)
        return 1.0

    return judge


def books(live: Live) -> Stats:
    """The counters once the engine's thread has ended."""
    eventually(lambda: not live.pipeline.engine.thread.alive)  # type: ignore[attr-defined]
    return live.pipeline.stats()


def check(stats: Stats, runs: int) -> None:
    assert stats.check() == []
    assert stats.seen == runs, stats
    rule = stats.rules["slow"]
    assert rule.pending == 0
    assert rule.eligible == stats.eligible
    assert set(stats.ignored) <= {"undecided_at_shutdown"}


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 40),
    st.sampled_from([0.0, 0.0005, 0.01]),
    st.sampled_from([0, 0, 1, 50]),
    st.sampled_from([0.0, 0.02, 5.0]),
    st.sampled_from([0.3, 1.0]),
)
def test_runs_sent_are_runs_in_the_books(
    runs: int, seconds: float, timeout: int, grace: float, rate: float
) -> None:
    """Whatever waits: in the intake, for its grace period, to be read, to be scored."""
    with Live(Rule(slow(seconds), sample=sampling.ratio(rate) | sampling.always()), grace=grace) as live:
        for _ in range(runs):
            live.run()
        live.pipeline.shutdown(timeout)
        check(books(live), runs)


@pytest.mark.parametrize("timeout", [0, 100])
def test_what_a_blocked_thread_never_took_is_counted_once_it_goes_on(timeout: int) -> None:
    """The first run blocks the engine's thread until after the shutdown has given up on it."""
    began, release, ended = threading.Event(), threading.Event(), threading.Event()

    @scorer(id="slow", version="1", inline=True)
    def blocks(run: Run) -> float:
        began.set()
        release.wait(SECONDS)
        ended.set()
        return 1.0

    with Live(Rule(blocks), grace=0.0) as live:
        live.run()
        assert began.wait(SECONDS)
        for _ in range(150):
            live.run()
        live.pipeline.shutdown(timeout)
        assert not ended.is_set(), "it waited for the scorer"
        release.set()
        check(books(live), 151)


def test_runs_sent_while_it_ends_are_in_the_books_or_refused() -> None:
    """A thread of the application goes on: each run ends as one, or as spans that were refused."""
    stop, sent = threading.Event(), [0]
    with Live(Rule(slow(0.0005)), grace=0.0) as live:

        def send() -> None:
            while not stop.is_set():
                live.run()
                sent[0] += 1

        sender = threading.Thread(target=send)
        sender.start()
        time.sleep(0.05)
        live.pipeline.shutdown(20)
        stats = books(live)
        stop.set()
        sender.join()
        stats = live.pipeline.stats()
    assert stats.check() == []
    assert stats.rules["slow"].pending == 0
    assert 0 <= sent[0] - stats.seen <= stats.losses.get("intake_full", 0)


def test_a_run_whose_root_has_not_ended_counts_once() -> None:
    """Its spans may be read, or wait in the intake."""
    with Live(Rule(slow(0.0))) as live:
        live.run(during=lambda _: live.pipeline.shutdown(0))
        stats = books(live)
    assert stats.ignored == {"root_not_ended_at_shutdown": 1}


@pytest.mark.parametrize("endless", [float("inf"), 1e300])
def test_endless_timeouts_end_when_everything_is_scored(endless: float) -> None:
    with Live(Rule(slow(0.0), timeout=endless), shutdown_timeout=endless, no_traffic_after=endless) as live:
        live.run()
        assert live.pipeline.force_flush(10**400)
        live.run()
        live.pipeline.shutdown()
        check(books(live), 2)
