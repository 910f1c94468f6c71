"""Evaluation spans as OpenTelemetry data: their attributes, their end, and the spans of a scorer's steps."""

from __future__ import annotations

import json
from typing import Any

from opentelemetry.trace import (
    Span,
    Status,
    StatusCode,
    Tracer,
    set_span_in_context,
)

from otel_evals import semconv
from otel_evals._internal.model import Evaluation, Run, Score, ScorerFailure, StepRecord
from otel_evals._internal.trust.marks import mark

Attributes = dict[str, Any]
"""Of a span or an event, by name."""
MAX_TEXT = 4_000
MAX_LABEL = 256


def opening_attributes(run: Run, scorer_id: str) -> Attributes:
    return {
        semconv.MARK: True,
        semconv.GEN_AI_EVALUATION_NAME: scorer_id,
        semconv.OPENINFERENCE_SPAN_KIND: "EVALUATOR",
        **conversation_attributes(run),
    }


def proposed_attributes(evaluation: Evaluation) -> Attributes:
    """Return the attributes of an event or a span that are proposed for the GenAI conventions."""
    attributes: Attributes = {
        semconv.GEN_AI_EVALUATOR_ID: evaluation.scorer_id,
        semconv.GEN_AI_EVALUATOR_VERSION: evaluation.scorer_version,
    }
    is_score = isinstance(evaluation.outcome, Score)
    if any(step.model is not None for step in getattr(evaluation.outcome, "steps", ())):
        attributes[semconv.GEN_AI_EVALUATOR_TYPE] = "llm_judge"
    elif is_score:  # without a score, the judge may not have been called yet
        attributes[semconv.GEN_AI_EVALUATOR_TYPE] = "deterministic"
    if is_score and evaluation.scale is not None:
        attributes[semconv.GEN_AI_EVALUATION_SCORE_RANGE] = (0.0, float(evaluation.scale))
    return attributes


def end_span(
    tracer: Tracer, span: Span, evaluation: Evaluation, attributes: Attributes, *, may_fail: bool
) -> None:
    """End the evaluation span with these attributes of its outcome, and record its steps as children.

    With `may_fail`, a failure sets the status of these spans; in a trace of the application it would become
    the trace's own.
    """
    if span.is_recording():
        span.set_attributes(attributes)
        span.set_attribute(semconv.EVALUATION_OUTCOME, evaluation.outcome.status)
        span.set_attribute(semconv.SCORER_DIRECTION, evaluation.direction.value)
        if isinstance(evaluation.outcome, ScorerFailure) and may_fail:
            span.set_status(Status(StatusCode.ERROR, evaluation.outcome.message[:MAX_TEXT]))
        for step in getattr(evaluation.outcome, "steps", ()):
            _step_span(tracer, span, step, may_fail=may_fail)
    span.end(evaluation.time)


def _step_span(tracer: Tracer, parent: Span, step: StepRecord, *, may_fail: bool) -> None:
    attributes = {
        semconv.MARK: True,
        semconv.STEP_NAME: step.name,
        semconv.JUDGE_MODEL: step.model,
        semconv.JUDGE_COST: step.cost,
        semconv.STEP_PROMPT: _text(step.prompt),
        semconv.CONTEXT_DIGEST: getattr(step.context, "digest", None),
        semconv.STEP_RESULT: _text(step.result),
    }
    if step.model is not None:
        attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] = step.usage.input_tokens
        attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] = step.usage.output_tokens
    child = tracer.start_span(
        step.name,
        # Without the mark, a judge's call would be scored as a run of the application.
        context=mark(set_span_in_context(parent)),
        attributes={name: value for name, value in attributes.items() if value is not None},
        # 0 stands for unknown: the SDK then takes the present.
        start_time=step.start_time or None,
    )
    if step.error is not None and may_fail:
        child.set_status(Status(StatusCode.ERROR, step.error[:MAX_TEXT]))
    child.end(step.start_time + int(step.duration * 1e9) if step.start_time else None)


def conversation_attributes(run: Run) -> Attributes:
    if not run.turns:
        return {}
    return {
        semconv.GEN_AI_CONVERSATION_ID: run.conversation_id or "",
        semconv.CONVERSATION_TURNS: len(run.turns),
    }


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value[:MAX_TEXT]
    dump = getattr(value, "model_dump_json", None)
    text = dump() if dump is not None else json.dumps(value, ensure_ascii=False, default=str)
    return str(text)[:MAX_TEXT]
