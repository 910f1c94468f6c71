"""Configuring again under traffic: runs that end meanwhile are counted, and judged only as a whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import otel_evals
from otel_evals import Run, ScoredRun, scorer
from otel_evals.testing import InMemoryDestination
from tests.support.agents import agent_run
from tests.support.waits import eventually

TOOLS = 1


@scorer(id="whole", version="1", inline=True)
def whole(run: Run) -> bool:
    return len(run.tool_calls) == TOOLS


def test_runs_that_end_while_it_is_configured_again_are_counted() -> None:
    provider = TracerProvider(shutdown_on_exit=False)
    tracer, scored = provider.get_tracer("app"), InMemoryDestination()
    pipelines = []

    def configure() -> None:
        pipelines.append(
            otel_evals.configure(
                rules=[whole], destinations=[scored], tracer_provider=provider, metrics=False, grace=0.01
            )
        )

    configure()
    sent, stop = 0, threading.Event()

    def work() -> None:
        nonlocal sent
        while not stop.is_set():
            agent_run(tracer)
            sent += 1
            time.sleep(0.002)

    worker = threading.Thread(target=work)
    worker.start()
    for _ in range(5):
        configure()
    stop.set()
    worker.join()
    otel_evals.shutdown()
    stats = [each.stats() for each in pipelines]
    assert all(each.check(ended=True) == [] for each in stats)
    assert sum(each.seen for each in stats) >= sent, "a run that ended in between may be counted by both"
    assert all(evaluation.outcome.value == 1.0 for evaluation in scored.evaluations)  # type: ignore[union-attr]  # scores


def test_answers_are_checked_while_it_is_configured_again() -> None:
    """The runs of the configuration before take a while."""
    provider = TracerProvider(shutdown_on_exit=False)
    tracer = provider.get_tracer("app")

    @scorer(version="1")
    def slow(run: Run) -> bool:
        time.sleep(0.5)
        return True

    otel_evals.configure(rules=[slow], tracer_provider=provider, grace=0.0)
    agent_run(tracer)
    exported = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exported))
    again = threading.Thread(target=lambda: otel_evals.configure(rules=[whole], tracer_provider=provider))
    again.start()
    reasons = set()
    while again.is_alive():
        agent_run(tracer, during=lambda _: reasons.add(otel_evals.check_sync(whole).reason))
    assert "not_configured" not in reasons
    assert None in reasons, "there were verdicts"
    assert otel_evals.force_flush()
    attributes = [
        s.attributes or {} for s in exported.get_finished_spans() if s.name == "invoke_agent support"
    ]
    # The run that was open at the change is judged by neither.
    assert sum("otel_evals.score.whole" not in each for each in attributes) <= 1


def test_runs_that_the_journal_has_are_delivered_by_the_next_configuration(tmp_path: Path) -> None:
    """They began before it, but are whole."""

    class Down(InMemoryDestination):
        async def export(self, batch: Sequence[ScoredRun]) -> None:
            raise OSError("down")

    provider, scored = TracerProvider(shutdown_on_exit=False), InMemoryDestination()
    for destination in (Down(), scored):
        pipeline = otel_evals.configure(
            rules=[whole],
            destinations=[destination],
            tracer_provider=provider,
            journal=tmp_path,
            shutdown_timeout=0.5,
        )
        agent_run(provider.get_tracer("app"))
    eventually(lambda: len(scored.evaluations) == 2)
    assert pipeline.stats().ignored == {}
    otel_evals.shutdown()
