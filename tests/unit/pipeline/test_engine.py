"""The engine on a thread: captured items in, and questions answered before, during and after its life."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from otel_evals import Rule, RuleStats, Run, scorer
from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.capture.processors import CaptureSpans
from otel_evals._internal.config.loader import build_config
from otel_evals._internal.pipeline.engine import Engine
from otel_evals.testing import InMemoryDestination
from tests.support.trace_builder import DIALECTS
from tests.support.traffic import agent_run


@scorer(id="one", version="1")
def one(run: Run) -> float:
    return 1.0


class App:
    """An engine, and an application whose spans it is given."""

    def __init__(self, *rules: Any, **options: Any) -> None:
        self.scored = InMemoryDestination()
        config = build_config(rules, [self.scored], **{"grace": 0.0, **options})
        self.engine = Engine(config, DIALECTS, Attacher(None, None, None, None))
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(CaptureSpans(self.engine.intake, DIALECTS, 1.0))
        self.tracer = provider.get_tracer("app")


@contextmanager
def app(*rules: Any, **options: Any) -> Iterator[App]:
    made = App(*rules, **options)
    try:
        yield made
    finally:
        deadline = time.monotonic() + 30
        made.engine.shutdown(deadline)
        made.engine.close(deadline)
        assert made.engine.steps.stats().check() == []


def test_runs_are_scored_and_counted_off_the_callers_thread() -> None:
    with app(Rule(one)) as a:
        for _ in range(3):
            agent_run(a.tracer)
        assert not a.engine.here
        assert a.engine.flush(5.0)
        assert len(a.scored.runs) == 3
        assert a.engine.steps.stats().rules["one"] == RuleStats(eligible=3, sampled=3, scored=3)
        assert a.engine.steps.fan_out.stats()["memory"].exported == 3
        assert a.engine.queue_size == 0


def test_nothing_runs_before_there_is_something_to_score() -> None:
    threads = threading.active_count()
    with app(Rule(one)) as a:
        assert threading.active_count() <= threads, "one of an earlier test may have ended"
        assert a.engine.health(60.0, closed=False).status == "idle"
        assert a.engine.steps.stats().seen == 0


def test_what_cannot_be_scored_in_time_is_told_and_dropped_at_the_end() -> None:
    release = threading.Event()

    @scorer(id="waits", version="1")
    def waits(run: Run) -> float:
        release.wait(10)
        return 1.0

    try:
        with app(Rule(waits)) as a:
            agent_run(a.tracer)
            assert not a.engine.flush(0.1)
            assert a.engine.queue_size == 1
            a.engine.shutdown(time.monotonic() + 0.3)
            assert a.engine.steps.stats().rules["waits"].dropped == {"shutdown": 1}
            (scored,) = a.scored.runs
            assert [e.status for e in scored.evaluations] == ["dropped"]
            agent_run(a.tracer)
    finally:
        release.set()


def test_after_its_end_what_comes_is_counted_as_lost() -> None:
    with app(Rule(one)) as a:
        agent_run(a.tracer)
        deadline = time.monotonic() + 30
        a.engine.shutdown(deadline)
        a.engine.close(deadline)
        agent_run(a.tracer)
        stats = a.engine.steps.stats()
        assert (stats.rules["one"].scored, stats.losses) == (1, {"intake_full": 3})
        assert not a.engine.flush(0.1)
        assert not a.engine.health(60.0, closed=True).thread_alive
