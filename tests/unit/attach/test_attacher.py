"""The attacher: an outcome goes out in every way that works, and nobody's processor can stop scoring."""

from __future__ import annotations

import contextvars
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.metrics import NoOpMeter
from opentelemetry.sdk._logs import LoggerProvider, LogRecordProcessor
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, TraceFlags

from otel_evals._internal.attach.attacher import Attacher
from otel_evals._internal.attach.evaluation_spans import EvaluationSpans
from otel_evals._internal.attach.hold import PendingScores
from otel_evals._internal.attach.metrics import Metrics
from otel_evals._internal.attach.observed import Measured
from otel_evals._internal.trust.marks import is_marked
from otel_evals.model import Operation, OperationKind, Score, SpanRecord
from tests.support.replacing import replace
from tests.support.scored import OUTCOMES, SPAN, TRACE, evaluation, scored_run

RUN = scored_run().run
SCORED = evaluation("hallucination", OUTCOMES["hallucination"])


class Failing(SpanProcessor, LogRecordProcessor):
    """Somebody's processor, which raises."""

    def __init__(self, *where: str) -> None:
        self.where = where

    def _fail(self, where: str) -> None:
        if where in self.where:
            raise SystemExit(f"{where} failed")  # the worst of what it may raise

    def on_start(self, *_: object, **__: object) -> None:
        self._fail("on_start")

    def on_end(self, *_: object) -> None:
        self._fail("on_end")

    def on_emit(self, *_: object) -> None:
        self._fail("on_emit")

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


class Outlets:
    """An attacher with every way switched on, and what left by each."""

    def __init__(self, *failing: str, durations: Any = None) -> None:
        self.spans, self.logs, self.scores = (
            InMemorySpanExporter(),
            InMemoryLogRecordExporter(),
            PendingScores(),
        )
        self.finished: list[Any] = []
        self.scores.listen(self.finished.append)
        tracers, loggers = TracerProvider(shutdown_on_exit=False), LoggerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self.spans))
        tracers.add_span_processor(Failing(*failing))
        loggers.add_log_record_processor(SimpleLogRecordProcessor(self.logs))
        loggers.add_log_record_processor(Failing(*failing))
        self.metrics = Metrics(NoOpMeter("t"), Measured)
        if "metrics" in failing:
            self.metrics.record = lambda *_: 1 / 0  # type: ignore[assignment,method-assign,return-value]
        spans = EvaluationSpans(tracers.get_tracer("t"))
        self.attacher = Attacher(spans, loggers.get_logger("t"), self.metrics, self.scores)
        self.scores.expect(int(TRACE, 16), int(SPAN, 16))

    def score(self) -> None:
        opened = self.attacher.open(RUN, SPAN, SCORED.scorer_id, SCORED.scorer_id, 5, contextvars.Context())
        self.attacher.attach(RUN, SCORED, opened)

    @property
    def span_names(self) -> list[str]:
        return [span.name for span in self.spans.get_finished_spans()]

    @property
    def events(self) -> int:
        return len(self.logs.get_finished_logs())

    @property
    def attributes(self) -> dict[str, Any]:
        return self.attributes_of(SPAN)

    def attributes_of(self, span_id: str) -> dict[str, Any]:
        return dict(self.scores.take((int(TRACE, 16), int(span_id, 16)), 1, anyway=True) or {})


def an_operation(span_id: str) -> Operation:
    span = SpanRecord(trace_id=TRACE, span_id=span_id)
    return Operation(span=span, kind=OperationKind.TOOL, convention="test")


def test_a_score_about_an_operation_is_on_its_span() -> None:
    """Its event is in that span's context."""
    outlets = Outlets()
    run = replace(RUN, operations=(an_operation("ab" * 8),))
    outlets.scores.expect(int(TRACE, 16), int("ab" * 8, 16))
    for named in ("ab" * 8, "cd" * 8):
        score = Score(value=0.0, span_id=named)
        scored = replace(SCORED, outcome=score, evaluation_id=named)
        opened = outlets.attacher.open(run, SPAN, "h", "h", 5, contextvars.Context())
        outlets.attacher.attach(run, scored, opened)
    assert outlets.attributes_of(SPAN)["otel_evals.score.hallucination.operation"] == "cd" * 8
    assert outlets.attributes_of("ab" * 8)["otel_evals.score.hallucination.operation"] == "ab" * 8
    of_operation, of_unknown = (log.log_record for log in outlets.logs.get_finished_logs())
    assert (of_operation.span_id, of_unknown.span_id) == (int("ab" * 8, 16), int(SPAN, 16))
    assert (of_operation.attributes or {})["otel_evals.score.operation"] == "ab" * 8


@pytest.mark.parametrize(
    ("failing", "spans", "events"),
    [
        ("on_start", [], 1),
        ("on_emit", ["preprocess", "analyze", "evaluate hallucination"], 1),
        ("metrics", ["preprocess", "analyze", "evaluate hallucination"], 1),
    ],
)
def test_a_way_that_fails_costs_the_others_nothing(
    failing: str, spans: list[str], events: int, caplog: pytest.LogCaptureFixture
) -> None:
    outlets = Outlets(failing)
    outlets.score()
    assert outlets.span_names == spans
    assert outlets.events == events
    assert outlets.attributes["otel_evals.score.hallucination"] == 0.25
    assert "hallucination" in caplog.text


def test_a_span_that_cannot_be_ended_costs_nothing_else() -> None:
    outlets = Outlets("on_end")
    outlets.score()
    assert outlets.events == 1
    assert outlets.attributes["otel_evals.score.hallucination"] == 0.25


def test_a_scorer_runs_below_the_evaluation_span_marked_and_in_a_context_of_its_own() -> None:
    outlets = Outlets()
    with trace.use_span(trace.NonRecordingSpan(SpanContext(9, 9, False, TraceFlags(1)))):
        opened = outlets.attacher.open(RUN, SPAN, "judge", "judge", 5, contextvars.Context())
    assert opened.context.run(trace.get_current_span) is opened.span
    assert opened.context.run(is_marked, None)
    assert not is_marked(opened.judged)
    assert (
        outlets.attacher.open(RUN, SPAN, "judge", "judge", 5, contextvars.Context()).context
        is not opened.context
    )


def test_without_evaluation_spans_what_a_scorer_records_is_marked_and_not_sampled() -> None:
    """It must not join the judged trace."""
    attacher = Attacher(None, None, None, None)
    opened = attacher.open(RUN, SPAN, "judge", "judge", 5, contextvars.Context())
    current = opened.context.run(trace.get_current_span).get_span_context()
    assert current.is_valid
    assert current.trace_id != int(TRACE, 16)
    assert not current.trace_flags.sampled
    assert opened.context.run(is_marked, None)
    assert "otel_evals" in current.trace_state
    attacher.attach(RUN, SCORED, opened)
    attacher.retry(opened)


@pytest.mark.parametrize(
    ("name", "events"), [("tool_call_accuracy", 0), ("answer_relevancy", 1), ("tone", 0)]
)
def test_events_are_of_scores_and_failures(name: str, events: int) -> None:
    """A run that is not scored is no event; and what never began has no evaluation span."""
    outlets = Outlets()
    outlets.attacher.attach(RUN, evaluation(name, OUTCOMES[name]), None)
    assert (outlets.events, outlets.span_names, outlets.attributes) == (events, [], {})


def test_a_conversations_scores_are_not_waited_for_by_spans() -> None:
    outlets = Outlets()
    outlets.attacher.attach(replace(RUN, turns=(RUN,), conversation_id="c"), SCORED, None)
    assert (outlets.events, outlets.attributes) == (1, {})
