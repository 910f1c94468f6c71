"""At the end every run whose root was captured is counted once, however little time there is."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import otel_evals
from otel_evals import Rule, Run, Stats, sampling, scorer
from otel_evals.errors import ConfigError
from tests.behaviour.app import App
from tests.support.waits import SECONDS, eventually


@scorer(version="1", inline=True)
def one(run: Run) -> float:
    return 1.0


@scorer(version="1")
async def waits(run: Run) -> float:
    await asyncio.sleep(0.05)
    return 1.0


def slow(seconds: float) -> Any:
    """A scorer that keeps the engine's thread for so long per run."""

    @scorer(id="slow", version="1", inline=True)
    def judge(run: Run) -> float:
        time.sleep(seconds)
        return 1.0

    return judge


def ended(app: App) -> Stats:
    """The counters once the engine's thread has ended."""
    eventually(lambda: not app.pipeline.health().thread_alive)
    stats = app.pipeline.stats()
    assert stats.check() == []
    assert [rule.pending for rule in stats.rules.values()] == [0] * len(stats.rules)
    return stats


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(
    st.integers(1, 40),
    st.sampled_from([0.0, 0.0005, 0.01]),
    st.sampled_from([0, 0, 1, 50]),
    st.sampled_from([0.0, 0.02, 5.0]),
    st.sampled_from([0.3, 1.0]),
)
def test_runs_sent_are_runs_counted(
    runs: int, seconds: float, timeout: int, grace: float, rate: float
) -> None:
    """Whatever waits: in the intake, for its grace period, to be read, to be scored."""
    app = App(Rule(slow(seconds), sample=sampling.ratio(rate) | sampling.always()), grace=grace)
    for _ in range(runs):
        app.run()
    app.pipeline.shutdown(timeout)
    stats = ended(app)
    assert (stats.seen, stats.rules["slow"].eligible) == (runs, stats.eligible)
    assert set(stats.ignored) <= {"undecided_at_shutdown"}
    assert len(app.spans()) == runs, "every span has left"


@pytest.mark.parametrize("timeout", [0, 100])
def test_what_a_blocked_thread_never_took_is_logged_and_counted_once_it_goes_on(
    timeout: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The first run blocks the engine's thread until after the shutdown has ended without it."""
    began, release, over = threading.Event(), threading.Event(), threading.Event()

    @scorer(version="1", inline=True)
    def blocks(run: Run) -> float:
        began.set()
        release.wait(SECONDS)
        over.set()
        return 1.0

    app = App(blocks, grace=0.0)
    app.run()
    assert began.wait(SECONDS)
    for _ in range(100):
        app.run()
    app.pipeline.shutdown(timeout)
    assert not over.is_set(), "it waited for the scorer"
    assert "blocks the scoring thread" in caplog.text
    release.set()
    assert ended(app).seen == 101


@contextmanager
def traffic(app: App) -> Iterator[list[str]]:
    """Runs of another thread, which has sent some already; yields their trace ids."""
    stop, sent = threading.Event(), list[str]()

    def send() -> None:
        while not stop.is_set():
            sent.append(app.run())
            time.sleep(0.005)

    sender = threading.Thread(target=send)
    sender.start()
    time.sleep(0.1)
    yield sent
    stop.set()
    sender.join()


@pytest.mark.parametrize("timeout", [20, 20_000])
def test_runs_sent_while_it_ends_are_counted_or_refused(timeout: int) -> None:
    """A thread goes on, and is not waited for: each run ends as one, or as spans that were refused."""
    app = App(Rule(waits, concurrency=100), grace=0.0)
    with traffic(app) as sent:
        began = time.monotonic()
        app.pipeline.shutdown(timeout)
        took = time.monotonic() - began
    stats = ended(app)
    assert 0 <= len(sent) - stats.seen <= stats.losses.get("root_not_ended_at_shutdown", 0)
    assert took < 10


def test_spans_that_end_after_the_provider_was_shut_down_are_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App(one)
    app.run()
    app.provider.shutdown()
    app.run()
    app.run()
    stats = ended(app)
    assert (stats.rules["one"].scored, stats.losses) == (1, {"root_not_ended_at_shutdown": 6})
    assert caplog.text.count("scoring was shut down") == 1


def test_a_run_whose_root_has_not_ended_counts_once() -> None:
    app = App(one)
    app.run(during=lambda _: app.pipeline.shutdown(0))
    assert ended(app).ignored == {"root_not_ended_at_shutdown": 1}


@pytest.mark.parametrize("endless", [float("inf"), 1e300])
def test_endless_timeouts_end_when_everything_is_scored(endless: float) -> None:
    app = App(Rule(one, timeout=endless), shutdown_timeout=endless, no_traffic_after=endless)
    app.run()
    assert app.pipeline.force_flush(10**400)
    app.run()
    otel_evals.shutdown()
    assert ended(app).rules["one"].scored == 2


def test_flushes_end_under_traffic_and_release_only_what_ended_before() -> None:
    app = App(Rule(waits, concurrency=100))
    with traffic(app):
        done = [app.pipeline.force_flush(5_000) for _ in range(3)]
    app.settle()
    assert done == [True] * 3
    assert all("otel_evals.score.waits" in (span.attributes or {}) for span in app.spans())


def test_flushing_and_shutting_down_are_safe_at_any_time() -> None:
    """Before the first span, twice, from a scorer, and after the end: no error, no hang."""

    @scorer(version="1")
    def flushes(run: Run) -> bool:
        otel_evals.configure(rules=[one], tracer_provider=app.provider)  # would end this very scorer
        return app.pipeline.force_flush(500)

    app = App(flushes)
    assert app.pipeline.force_flush()
    app.run()
    app.settle()
    assert otel_evals.stats().rules["flushes"].scored == 1
    app.pipeline.shutdown(500)
    app.pipeline.shutdown(500)
    assert app.pipeline.force_flush() is False
    app.run()
    app.provider.force_flush()
    assert len(app.spans()) == 2


@pytest.mark.parametrize("metrics", [True, False])
def test_a_pipeline_that_is_over_is_let_go(metrics: bool) -> None:
    """A meter keeps its instruments as long as the process: reconfiguring must not pile up pipelines."""
    app = App(one, metrics=metrics)
    app.run()
    app.settle()
    pipeline = weakref.ref(app.pipeline)
    otel_evals.shutdown()
    App(one)
    otel_evals.shutdown()
    del app
    gc.collect()
    assert pipeline() is None


def test_each_configuration_replaces_the_last_one_and_a_wrong_one_none() -> None:
    """Spans of one provider leave once, with the scores of the rules of their time."""
    app = App(one)
    other = scorer(id="other", version="1")(lambda run: 1.0)
    for rule, expected in ((one, "one"), (other, "other")):
        otel_evals.configure(rules=[rule], tracer_provider=app.provider, grace=0.0)
        with pytest.raises(ConfigError, match="hold"):
            otel_evals.configure(rules=[one, other], tracer_provider=app.provider, hold=-1.0)
        app.exported.clear()
        app.run()
        assert otel_evals.force_flush()
        app.provider.force_flush()
        attributes = app.span().attributes
        found = {key for key in attributes if key in ("otel_evals.score.one", "otel_evals.score.other")}
        assert found == {f"otel_evals.score.{expected}"}
        assert len(app.exported.get_finished_spans()) == 3
    otel_evals.shutdown()
    app.exported.clear()
    app.run()
    assert not [key for key in app.span().attributes if key.startswith("otel_evals")]
