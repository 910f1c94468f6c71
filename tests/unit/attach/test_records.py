"""What evaluations look like in OpenTelemetry: the names and types of all that dashboards are built on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry._logs import SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id, get_current_span

from otel_evals._internal.attach.attacher import Attacher, result_attributes, span_attributes
from otel_evals._internal.attach.evaluation_spans import judged_context, judged_links
from otel_evals._internal.attach.records import end_span, opening_attributes, proposed_attributes
from otel_evals.model import (
    Evaluation,
    Operation,
    OperationKind,
    Outcome,
    Run,
    Score,
    ScorerFailure,
    SpanRecord,
)
from tests.support.replacing import replace
from tests.support.scored import JUDGED, OUTCOMES, SPAN, TRACE, evaluation, scored_run

RUN = replace(scored_run().run, trace_state="ot=th:8", trace_flags=1)
COMMON = {
    "otel_evals.evaluation.id": str,
    "otel_evals.evaluation.revision": int,
    "otel_evals.scorer.version": str,
    "otel_evals.sampling.rule": str,
    "otel_evals.sampling.probability": float,
    "gen_ai.evaluation.name": str,
}
"""What every evaluation carries."""
OF_OUTCOME: dict[str, dict[str, type]] = {
    "hallucination": {
        "gen_ai.evaluation.score.value": float,
        "gen_ai.evaluation.score.label": str,
        "gen_ai.evaluation.explanation": str,
        "otel_evals.judge.model": str,
        "otel_evals.judge.cost": float,
        "otel_evals.context.digest": str,
    },
    "keyword_coverage": {"gen_ai.evaluation.score.value": float},
    "tool_call_accuracy": {"otel_evals.evaluation.reason": str, "gen_ai.evaluation.explanation": str},
    "answer_relevancy": {"error.type": str, "gen_ai.evaluation.explanation": str},
    "tone": {},
}


def judged(name: str, outcome: Outcome | None = None) -> Evaluation:
    return evaluation(name, OUTCOMES[name] if outcome is None else outcome)


def types(attributes: Mapping[str, Any] | None) -> dict[str, type]:
    return {name: type(value) for name, value in (attributes or {}).items()}


def event(ended: Evaluation, run: Run = RUN) -> ReadableLogRecord:
    exporter = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    Attacher(None, provider.get_logger("t"), None, None).attach(run, ended, None)
    (found,) = exporter.get_finished_logs()
    return found


def spans(ended: Evaluation, *, may_fail: bool = True) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("t")
    attributes = opening_attributes(RUN, ended.scorer_id)
    span = tracer.start_span("evaluate", attributes=attributes, start_time=5)
    end_span(tracer, span, ended, result_attributes(ended), may_fail=may_fail)
    return list(exporter.get_finished_spans())


# --- the context ---


def test_the_judged_span_is_current_in_its_context_and_nothing_else_is_there() -> None:
    context = judged_context(RUN, SPAN)
    found = get_current_span(context).get_span_context()
    assert (format_trace_id(found.trace_id), format_span_id(found.span_id)) == (TRACE, SPAN)
    assert (found.trace_flags, found.trace_state.to_header()) == (1, "ot=th:8")
    assert len(context) == 1
    assert isinstance(context, Context)
    unsampled = get_current_span(judged_context(replace(RUN, trace_flags=0), SPAN)).get_span_context()
    assert not unsampled.trace_flags.sampled


# --- attributes on the judged span ---


def test_a_score_is_a_double_a_label_and_an_explanation_on_the_judged_span() -> None:
    assert span_attributes(judged("hallucination")) == {
        "otel_evals.score.hallucination": 0.25,
        "otel_evals.score.hallucination.evaluation_id": judged("hallucination").evaluation_id,
        "otel_evals.score.hallucination.label": "unsupported",
        "otel_evals.score.hallucination.explanation": "$12.50 is in no tool result",
    }
    plain = judged("keyword_coverage")
    assert span_attributes(plain) == {
        "otel_evals.score.keyword_coverage": 1.0,
        "otel_evals.score.keyword_coverage.evaluation_id": plain.evaluation_id,
    }
    whole = span_attributes(judged("whole", Score(value=1)))
    assert type(whole["otel_evals.score.whole"]) is float


@pytest.mark.parametrize("name", ["tool_call_accuracy", "answer_relevancy", "tone"])
def test_no_other_outcome_stands_on_the_judged_span(name: str) -> None:
    assert span_attributes(judged(name)) == {}


def test_long_texts_are_cut() -> None:
    steps = (replace(JUDGED.steps[1], prompt="p" * 100_000, error="e" * 100_000),)
    long = judged("long", Score(value=1.0, label="l" * 100_000, explanation="x" * 100_000, steps=steps))
    for attributes in (span_attributes(long), *(s.attributes or {} for s in spans(long))):
        assert all(len(str(value)) <= 4_000 for value in attributes.values())
    assert len(span_attributes(long)["otel_evals.score.long.label"]) == 256
    assert len(span_attributes(long)["otel_evals.score.long.explanation"]) == 4_000
    assert len(str((event(long).log_record.attributes or {})["gen_ai.evaluation.explanation"])) == 4_000


# --- the event ---


@pytest.mark.parametrize("name", ["hallucination", "keyword_coverage", "answer_relevancy"])
def test_the_event_follows_the_conventions(name: str) -> None:
    ended = judged(name)
    record = event(ended).log_record
    assert record.event_name == "gen_ai.evaluation.result"
    assert types(record.attributes) == {**COMMON, **OF_OUTCOME[name]}
    assert (record.attributes or {})["gen_ai.evaluation.name"] == name
    assert (record.attributes or {})["otel_evals.evaluation.id"] == ended.evaluation_id
    assert format_trace_id(record.trace_id or 0) == TRACE
    assert format_span_id(record.span_id or 0) == SPAN
    assert record.trace_flags == 1
    assert record.timestamp == record.observed_timestamp == ended.time
    failed = name == "answer_relevancy"
    assert record.severity_number == (SeverityNumber.WARN if failed else SeverityNumber.INFO)


def test_an_unknown_probability_is_left_out() -> None:
    unknown = replace(judged("keyword_coverage"), sampled=replace(judged("tone").sampled, probability=None))
    assert "otel_evals.sampling.probability" not in (event(unknown).log_record.attributes or {})


def test_the_event_names_the_judged_response_and_the_conversation() -> None:
    span = SpanRecord(trace_id=TRACE, span_id=SPAN)
    operation = Operation(span=span, kind=OperationKind.INFERENCE, convention="d", response_id="chatcmpl-1")
    run = replace(RUN, operations=(operation,))
    assert (event(judged("hallucination"), run).log_record.attributes or {})[
        "gen_ai.response.id"
    ] == "chatcmpl-1"
    whole = replace(run, turns=(run, run), conversation_id="c-42")
    attributes = event(judged("hallucination"), whole).log_record.attributes or {}
    assert attributes["gen_ai.conversation.id"] == "c-42"
    assert attributes["otel_evals.conversation.turns"] == 2


# --- the evaluation span ---


@pytest.mark.parametrize("name", sorted(OUTCOMES))
def test_the_evaluation_span_has_the_outcome(name: str) -> None:
    ended = judged(name)
    *steps, span = spans(ended)
    assert types(span.attributes) == {
        **COMMON,
        **OF_OUTCOME[name],
        "otel_evals.internal": bool,
        "openinference.span.kind": str,
        "otel_evals.evaluation.outcome": str,
        "otel_evals.scorer.direction": str,
    }
    attributes = span.attributes or {}
    assert attributes["otel_evals.internal"] is True
    assert attributes["openinference.span.kind"] == "EVALUATOR"
    assert attributes["otel_evals.evaluation.outcome"] == ended.status
    assert attributes["otel_evals.scorer.direction"] == "higher_is_better"
    assert (span.start_time, span.end_time) == (5, ended.time)
    assert span.status.status_code is (StatusCode.ERROR if ended.status == "failed" else StatusCode.UNSET)
    assert len(steps) == len(getattr(ended.outcome, "steps", ()))


def test_each_step_is_a_child_with_what_it_was_asked_and_what_came_back() -> None:
    timed = replace(JUDGED.steps[1], start_time=1_000, duration=2e-6, error="cut off")
    *steps, span = spans(judged("hallucination", replace(JUDGED, steps=(JUDGED.steps[0], timed))))
    assert [step.name for step in steps] == ["preprocess", "analyze"]
    code, asked = steps
    assert dict(code.attributes or {}) == {
        "otel_evals.internal": True,
        "otel_evals.step.name": "preprocess",
        "otel_evals.step.result": '["$12.50"]',
    }
    assert dict(asked.attributes or {}) == {
        "otel_evals.internal": True,
        "otel_evals.step.name": "analyze",
        "otel_evals.judge.model": "openai/gpt-5-mini",
        "otel_evals.judge.cost": 0.00042,
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 7,
        "otel_evals.step.prompt": "Is it so?",
        "otel_evals.context.digest": "ab" * 32,
        "otel_evals.step.result": '{"verdicts": ["no"]}',
    }
    assert (asked.start_time, asked.end_time) == (1_000, 3_000)
    assert (asked.status.status_code, asked.status.description) == (StatusCode.ERROR, "cut off")
    for step in steps:
        assert step.parent is not None
        assert span.context is not None
        assert step.parent.span_id == span.context.span_id


def test_in_a_trace_of_the_application_s_nothing_has_failed() -> None:
    """What went wrong is told by attributes; a status would become that of the trace."""
    broken = replace(JUDGED.steps[1], error="cut off")
    failed = judged("x", ScorerFailure(error_type="JudgeError", message="refused", steps=(broken,)))
    for may_fail, status in ((True, StatusCode.ERROR), (False, StatusCode.UNSET)):
        step, span = spans(failed, may_fail=may_fail)
        assert (step.status.status_code, span.status.status_code) == (status, status)
        assert (span.attributes or {})["error.type"] == "JudgeError"


def test_links_lead_to_what_was_judged() -> None:
    def linked(run: Run) -> list[tuple[str, str]]:
        contexts = [link.context for link in judged_links(run, SPAN)]
        return [(format_trace_id(c.trace_id), format_span_id(c.span_id)) for c in contexts]

    assert linked(RUN) == [(TRACE, SPAN)]
    earlier = replace(RUN, trace_id="1" * 32, root_span_id="2" * 16)
    whole = replace(RUN, turns=(earlier, RUN), conversation_id="c-42")
    assert linked(whole) == [("1" * 32, "2" * 16), (TRACE, SPAN)]
    assert opening_attributes(whole, "turns")["otel_evals.conversation.turns"] == 2


@pytest.mark.parametrize(
    ("scorer", "scale", "kind", "limits"),
    [
        ("hallucination", 1.0, "llm_judge", (0.0, 1.0)),
        ("keyword_coverage", 5, "deterministic", (0.0, 5.0)),
        ("keyword_coverage", None, "deterministic", None),
        ("answer_relevancy", 1.0, None, None),
        ("tool_call_accuracy", 1.0, None, None),
    ],
)
def test_proposed_attributes_name_the_evaluator_and_what_is_known_of_its_score(
    scorer: str, scale: float | None, kind: str | None, limits: tuple[float, float] | None
) -> None:
    attributes = proposed_attributes(replace(judged(scorer), scale=scale))
    start = "gen_ai.evaluation."
    assert attributes.pop(start + "evaluator.id") == scorer
    assert attributes.pop(start + "evaluator.version") == "1f3a"
    assert attributes.pop(start + "evaluator.type", None) == kind
    assert attributes.pop(start + "score.range", None) == limits
    assert not attributes
