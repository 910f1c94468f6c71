"""Rules of scope `conversation` where scorers, or the whole engine, have processes of their own."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_evals import Pipeline, Rule, Run, Score, scorer
from otel_evals._internal.accounting.counters import ConversationStats
from otel_evals._internal.config.loader import build_config
from tests.support.traffic import Live, agent_run


@scorer(version="1")
def elsewhere(run: Run) -> Score:
    """A tenth for each turn, with what was said and which process it was judged in."""
    said = [m.text for m in (*run.history, *run.input_messages) if m.role == "user"]
    tools = sum(len(turn.tool_calls) for turn in run.turns)
    return Score(value=len(run.turns) / 10, explanation=f"{os.getpid()} {tools} {said}")


def say(tracer: Any, conversation: str, question: str) -> int:
    return agent_run(
        tracer, question, during=lambda span: span.set_attribute("gen_ai.conversation.id", conversation)
    )


def until(condition: Callable[[], object], seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.01)
    assert condition()


def test_a_scorer_in_its_own_process_sees_the_turns() -> None:
    rule = Rule(elsewhere, scope="conversation", idle=0.5, isolation="process")
    with Live(rule) as live:
        for number in range(3):
            say(live.tracer, "c1", f"q{number}")
        until(lambda: live.pipeline.stats().rules["elsewhere@conversation"].scored == 1)
        assert live.flush(20_000)
        (evaluation,) = live.scored.evaluations
    assert isinstance(evaluation.outcome, Score)
    assert evaluation.outcome.value == 0.3
    pid, tools, said = str(evaluation.outcome.explanation).split(" ", 2)
    assert (int(pid) != os.getpid(), tools, said) == (True, "3", "['q0', 'q1', 'q2']")


class App:
    """An application whose engine has a process of its own; use as a context manager."""

    def __init__(self, *rules: Rule, **options: Any) -> None:
        self.provider, self.loggers = TracerProvider(), LoggerProvider()
        self.exported, self.events = InMemorySpanExporter(), InMemoryLogRecordExporter()
        self.loggers.add_log_record_processor(SimpleLogRecordProcessor(self.events))
        config = build_config(rules, isolation="process", grace=0.02, **options)
        self.pipeline = Pipeline(config, tracer_provider=self.provider, logger_provider=self.loggers)
        self.provider.add_span_processor(self.pipeline.spans)
        self.provider.add_span_processor(SimpleSpanProcessor(self.pipeline.hold(self.exported)))
        self.tracer = self.provider.get_tracer("tests.app")

    def __enter__(self) -> App:
        return self

    def __exit__(self, *_: object) -> None:
        self.provider.shutdown()
        self.loggers.shutdown()


def test_an_engine_in_its_own_process_judges_conversations_too() -> None:
    with App(Rule(elsewhere, scope="conversation", idle=1.0), evaluation_spans="same_trace") as app:
        traces = [say(app.tracer, "c1", f"q{number}") for number in range(2)]
        until(lambda: app.pipeline.stats().conversations.waiting == 1)
        assert app.pipeline.explain(traces[0]).decisions[0].status == "awaiting_idle"
        until(lambda: app.pipeline.stats().rules["elsewhere@conversation"].scored == 1)
        assert app.pipeline.force_flush(20_000)
        (span,) = [s for s in app.exported.get_finished_spans() if s.name == "evaluate elsewhere"]
        (event,) = [record.log_record for record in app.events.get_finished_logs()]
        assert app.pipeline.stats().check() == []
    for attributes in (span.attributes, event.attributes):
        assert attributes is not None
        assert attributes["gen_ai.conversation.id"] == "c1"
        assert attributes["otel_evals.conversation.turns"] == 2
    assert span.context is not None
    assert span.context.trace_id == traces[1]
    assert [link.context.trace_id for link in span.links] == traces[:1]


@pytest.mark.slow
def test_conversations_that_waited_in_an_engine_that_died_are_counted() -> None:
    with App(Rule(elsewhere, scope="conversation")) as app:
        for name in ("c1", "c2"):
            say(app.tracer, name, "q")
        until(lambda: app.pipeline.stats().conversations.waiting == 2)
        assert app.pipeline.engine.pid is not None
        os.kill(app.pipeline.engine.pid, signal.SIGKILL)
        until(lambda: app.pipeline.engine.deaths == 1)
        assert app.pipeline.stats().conversations == ConversationStats(lost={"process_died": 2})
        assert app.pipeline.health().losses["conversations (process_died)"] == 2
        say(app.tracer, "c1", "again")
        until(
            lambda: (
                app.pipeline.stats().conversations == ConversationStats(waiting=1, lost={"process_died": 2})
            )
        )
        app.pipeline.shutdown()
        assert app.pipeline.stats().rules["elsewhere@conversation"].scored == 1
        assert app.pipeline.stats().check() == []
