"""The engine on a thread: captured items in, and questions answered before, during and after its life."""

from __future__ import annotations

import asyncio
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
from otel_evals._internal.engine.attempt import Target
from otel_evals._internal.engine.engine import Engine
from otel_evals._internal.engine.source import Source
from otel_evals._internal.gather.gatherer import SpanGroup
from otel_evals.errors import DestinationError
from otel_evals.model import Operation, OperationKind, SpanRecord
from otel_evals.sampling import always, never, ratio
from otel_evals.testing import InMemoryDestination
from tests.support.runs import a_run
from tests.support.trace_builder import KNOWN_CONVENTIONS
from tests.support.traffic import agent_run
from tests.support.waits import eventually
from tests.support.wired import wired


@scorer(id="one", version="1")
def one(run: Run) -> float:
    return 1.0


class App:
    """An engine, and an application whose spans it is given."""

    def __init__(
        self, *rules: Any, source: Source | None = None, destination: Any = None, **options: Any
    ) -> None:
        self.scored = InMemoryDestination()
        config = build_config(rules, [destination or self.scored], **{"grace": 0.0, **options})
        self.engine = Engine(config, KNOWN_CONVENTIONS, Attacher(None, None, None, None), source=source)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(CaptureSpans(self.engine.thread, KNOWN_CONVENTIONS, 1.0))
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
        assert made.engine.stats().check() == []


def test_runs_are_scored_and_counted_off_the_callers_thread() -> None:
    with app(Rule(one)) as a:
        for _ in range(3):
            agent_run(a.tracer)
        assert not a.engine.here
        assert a.engine.flush(5.0)
        assert len(a.scored.runs) == 3
        assert a.engine.stats().rules["one"] == RuleStats(eligible=3, sampled=3, scored=3)
        assert a.engine.destination_stats()["memory"].exported == 3
        assert a.engine.queue_size == 0


def test_a_run_from_before_several_rises_of_sampling_is_not_scored_in_part() -> None:
    with app(Rule(one)) as a:

        def rises(_: Any) -> None:
            for sample in (never(), ratio(0.5), always()):
                assert a.engine.use_rules(build_config([Rule(one, sample=sample)]), 5.0)

        for _ in range(10):
            agent_run(a.tracer, during=rises)
        assert a.engine.flush(5.0)
        assert a.engine.stats().ignored == {"began_before_reload": 10}


def test_a_clock_that_was_set_back_after_a_reload_costs_no_run() -> None:
    with app(Rule(one)) as a:
        a.engine.ignore_runs_before(time.time_ns() + 3_600 * 10**9)
        agent_run(a.tracer)
        assert a.engine.flush(5.0)
        assert a.engine.stats().rules["one"].scored == 1


# --- rules do not take each other's capacity ---


def test_capacity_is_that_of_the_fullest_rule() -> None:
    release = asyncio.Event()

    @scorer(id="waits", version="1")
    async def waits(run: Run) -> float:
        await release.wait()
        return 1.0

    with app(Rule(waits, concurrency=1), Rule(one), limits={"queue_size": 5}) as a:
        assert a.engine.capacity() == 5
        for _ in range(3):
            agent_run(a.tracer)
        eventually(lambda: a.engine.capacity() == 3)
        a.engine.run(release_all(release), 1.0)
        eventually(lambda: a.engine.capacity() == 5)


def release_all(event: asyncio.Event) -> Any:
    async def release() -> None:
        event.set()

    return release


# --- a source is told which traces are done ---


class Kept(Source):
    """A source that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def sampled(self, group: SpanGroup) -> None:
        self.events.append(("sampled", group.spans[0].trace_id))

    def done(self, trace_id: str) -> bool:
        self.events.append(("done", trace_id))
        return True


def test_a_trace_is_done_once_all_its_destinations_have_accepted_it() -> None:
    accepts = threading.Event()

    class Slow(InMemoryDestination):
        async def export(self, batch: Any) -> Any:
            await asyncio.to_thread(accepts.wait, 10)
            return await super().export(batch)

    source = Kept()
    with app(Rule(one), source=source, destination=Slow()) as a:
        agent_run(a.tracer)
        eventually(lambda: a.engine.stats().rules["one"].scored == 1)
        time.sleep(1.5)  # longer than the pause before a trace is done
        assert [what for what, _ in source.events] == ["sampled"]
        accepts.set()
        eventually(lambda: [what for what, _ in source.events] == ["sampled", "done"])
    assert len({trace for _, trace in source.events}) == 1


def test_what_no_rule_samples_is_done_without_being_kept() -> None:
    source = Kept()
    with app(Rule(one, when=lambda run: False), source=source) as a:
        agent_run(a.tracer)
        eventually(lambda: [what for what, _ in source.events] == ["done"])


def test_scores_of_a_run_that_the_source_could_not_keep_are_counted_if_they_do_not_arrive() -> None:
    class Full(Source):
        def sampled(self, group: SpanGroup) -> bool:
            return False

    class Down(InMemoryDestination):
        async def export(self, batch: Any) -> Any:
            raise DestinationError("disk full", retryable=True)

    with app(Rule(one), source=Full(), destination=Down()) as a:
        agent_run(a.tracer)
        assert not a.engine.flush(1.0)
    assert a.engine.stats().not_kept == 1
    (stats,) = a.engine.destination_stats().values()
    assert (stats.pending, sum(stats.losses.values())) == (0, 1)


def test_what_a_shutdown_drops_is_not_done() -> None:
    @scorer(id="hangs", version="1")
    async def hangs(run: Run) -> float:
        await asyncio.sleep(60)
        return 1.0

    source = Kept()
    with app(Rule(hangs), Rule(one), source=source) as a:
        agent_run(a.tracer)
        eventually(lambda: a.engine.stats().rules["one"].scored == 1)
        a.engine.shutdown(time.monotonic() + 0.2)
        a.engine.close(time.monotonic() + 1.0)
    assert [what for what, _ in source.events] == ["sampled"]


def test_what_a_shutdown_delivers_is_done() -> None:
    source = Kept()
    with app(Rule(one), source=source) as a:
        agent_run(a.tracer)
    assert [what for what, _ in source.events] == ["sampled", "done"]


def test_a_run_of_a_conversation_is_kept_until_that_is_judged() -> None:
    source = Kept()
    with app(Rule(one, scope="conversation", idle=0.3), source=source) as a:
        agent_run(a.tracer, during=lambda span: span.set_attribute("gen_ai.conversation.id", "c-1"))
        eventually(lambda: [what for what, _ in source.events] == ["sampled"])
        assert a.engine.conversations.waiting == 1
        eventually(lambda: [what for what, _ in source.events] == ["sampled", "done"])
        assert a.engine.stats().rules["one@conversation"].scored == 1


OPERATION = Operation(
    span=SpanRecord(trace_id="1" * 32, span_id="2" * 16), kind=OperationKind.AGENT, convention="otel_genai"
)


def test_a_target_that_is_closed_twice_frees_its_bytes_once() -> None:
    async def capacities() -> tuple[int, int]:
        async with wired(Rule(one), limits={"max_bytes": 100_000}) as w:
            scorer = w.engine.scorer
            closed, waits = (Target(a_run(operations=(OPERATION,))) for _ in range(2))
            scorer.start({waits: []})
            alone = scorer.capacity
            scorer.start({closed: []})
            for _ in range(2):
                closed.open = 1
                scorer._leave(closed)
            return alone, scorer.capacity

    alone, after = asyncio.run(capacities())
    assert after == alone
