"""An evaluation as OpenTelemetry data: span attributes, the evaluation event, the evaluation span.

The event is `gen_ai.evaluation.result` of the GenAI semantic conventions; everything else is in the
`otel_evals` namespace. Event and span carry the same evaluation id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.trace import (
    DEFAULT_TRACE_STATE,
    Link,
    NonRecordingSpan,
    Span,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)

from otel_evals import semconv
from otel_evals._internal.model import Evaluation, NotScored, Run, Score, ScorerFailure, StepRecord
from otel_evals._internal.recursion import mark

_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_MAX_TEXT = 4_000
_MAX_LABEL = 256


def judged_context(run: Run, span_id: str) -> Context:
    """A context in which the judged span is current, with its own trace flags and state, and nothing else."""
    return set_span_in_context(NonRecordingSpan(_span_context(run, span_id)), Context())


def _span_context(run: Run, span_id: str) -> SpanContext:
    return SpanContext(
        trace_id=int(run.trace_id, 16),
        span_id=int(span_id, 16),
        is_remote=False,
        trace_flags=_SAMPLED if run.trace_flags == 1 else TraceFlags(run.trace_flags),
        trace_state=TraceState.from_header([run.trace_state]) if run.trace_state else DEFAULT_TRACE_STATE,
    )


def span_attributes(evaluation: Evaluation) -> dict[str, Any]:
    """The attributes of a score on the judged span; empty for every other outcome."""
    score = evaluation.outcome
    if not isinstance(score, Score):
        return {}
    name = f"{semconv.SCORE_PREFIX}{evaluation.scorer_id}"
    attributes: dict[str, Any] = {
        name: float(score.value),
        f"{name}.evaluation_id": evaluation.evaluation_id,
    }
    if score.label is not None:
        attributes[f"{name}.label"] = score.label[:_MAX_LABEL]
    if score.explanation:
        attributes[f"{name}.explanation"] = score.explanation[:_MAX_TEXT]
    return attributes


def emit_event(
    logger: Logger, run: Run, evaluation: Evaluation, judged: Context, more: Mapping[str, Any] | None = None
) -> None:
    """Emit the evaluation event of a score or a failure in the judged span's context.

    Args:
        logger: takes the event.
        run: what was judged.
        evaluation: the outcome.
        judged: the judged span is current in it.
        more: attributes that a backend asks for; they replace none of the event's own.
    """
    attributes = {**(more or {}), **_result(evaluation), **(_conversation(run) if run.turns else {})}
    response_id = _response_id(run, evaluation.span_id)
    if response_id is not None:
        attributes[semconv.GEN_AI_RESPONSE_ID] = response_id
    failed = isinstance(evaluation.outcome, ScorerFailure)
    logger.emit(
        LogRecord(
            timestamp=evaluation.time,
            observed_timestamp=evaluation.time,
            context=judged,
            severity_number=SeverityNumber.WARN if failed else SeverityNumber.INFO,
            event_name=semconv.GEN_AI_EVALUATION_RESULT,
            attributes=attributes,
        )
    )


def opening_attributes(run: Run, scorer_id: str) -> dict[str, Any]:
    """The attributes that an evaluation span has from its start."""
    return {
        semconv.MARK: True,
        semconv.GEN_AI_EVALUATION_NAME: scorer_id,
        semconv.OPENINFERENCE_SPAN_KIND: "EVALUATOR",
        **_conversation(run),
    }


def judged_links(run: Run, span_id: str) -> list[Link]:
    """Links to what is judged: a span, or the roots of a conversation's runs; the judged span is last."""
    earlier = [_span_context(turn, turn.root_span_id) for turn in run.turns[:-1]]
    return [Link(context) for context in (*earlier, _span_context(run, span_id))]


def end_span(tracer: Tracer, span: Span, evaluation: Evaluation, *, may_fail: bool) -> None:
    """End the evaluation span with its outcome, and record its steps as children.

    Args:
        tracer: records the steps.
        span: the evaluation span.
        evaluation: its outcome.
        may_fail: whether a failure is the status of these spans; not in a trace of the application's, whose
            own status it would become.
    """
    if span.is_recording():
        span.set_attributes(_result(evaluation))
        span.set_attribute(semconv.EVALUATION_OUTCOME, evaluation.outcome.status)
        span.set_attribute(semconv.SCORER_DIRECTION, evaluation.direction.value)
        if isinstance(evaluation.outcome, ScorerFailure) and may_fail:
            span.set_status(Status(StatusCode.ERROR, evaluation.outcome.message[:_MAX_TEXT]))
        for step in getattr(evaluation.outcome, "steps", ()):
            _step_span(tracer, span, step, may_fail=may_fail)
    span.end(evaluation.time)


def _step_span(tracer: Tracer, parent: Span, step: StepRecord, *, may_fail: bool) -> None:
    attributes: dict[str, Any] = {semconv.MARK: True, semconv.STEP_NAME: step.name}
    if step.model is not None:
        attributes[semconv.JUDGE_MODEL] = step.model
        attributes[semconv.GEN_AI_USAGE_INPUT_TOKENS] = step.usage.input_tokens
        attributes[semconv.GEN_AI_USAGE_OUTPUT_TOKENS] = step.usage.output_tokens
    if step.cost is not None:
        attributes[semconv.JUDGE_COST] = step.cost
    if step.prompt is not None:
        attributes[semconv.STEP_PROMPT] = step.prompt[:_MAX_TEXT]
    if step.context is not None:
        attributes[semconv.CONTEXT_DIGEST] = step.context.digest
    if step.result is not None:
        attributes[semconv.STEP_RESULT] = _text(step.result)
    child = tracer.start_span(
        step.name,
        context=mark(set_span_in_context(parent)),
        attributes=attributes,
        start_time=step.start_time or None,
    )
    if step.error is not None and may_fail:
        child.set_status(Status(StatusCode.ERROR, step.error[:_MAX_TEXT]))
    child.end(step.start_time + int(step.duration * 1e9) if step.start_time else None)


def _result(evaluation: Evaluation) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        semconv.GEN_AI_EVALUATION_NAME: evaluation.scorer_id,
        semconv.EVALUATION_ID: evaluation.evaluation_id,
        semconv.EVALUATION_REVISION: evaluation.revision,
        semconv.SCORER_VERSION: evaluation.scorer_version,
        semconv.SAMPLING_RULE: evaluation.sampled.rule,
    }
    if evaluation.sampled.probability is not None:
        attributes[semconv.SAMPLING_PROBABILITY] = evaluation.sampled.probability
    match evaluation.outcome:
        case Score() as score:
            attributes.update(_score(score))
        case NotScored() as missing:
            attributes[semconv.EVALUATION_REASON] = missing.reason
            if missing.explanation:
                attributes[semconv.GEN_AI_EVALUATION_EXPLANATION] = missing.explanation[:_MAX_TEXT]
        case ScorerFailure() as failure:
            attributes[semconv.ERROR_TYPE] = failure.error_type
            attributes[semconv.GEN_AI_EVALUATION_EXPLANATION] = failure.message[:_MAX_TEXT]
    return attributes


def _score(score: Score) -> dict[str, Any]:
    attributes: dict[str, Any] = {semconv.GEN_AI_EVALUATION_SCORE_VALUE: float(score.value)}
    if score.label is not None:
        attributes[semconv.GEN_AI_EVALUATION_SCORE_LABEL] = score.label[:_MAX_LABEL]
    if score.explanation:
        attributes[semconv.GEN_AI_EVALUATION_EXPLANATION] = score.explanation[:_MAX_TEXT]
    if score.agreement is not None:
        attributes[semconv.JUDGE_AGREEMENT] = score.agreement
    return {**attributes, **_judges(score)} if score.steps else attributes


def _judges(score: Score) -> dict[str, Any]:
    """The attributes of a score that judges gave."""
    attributes: dict[str, Any] = {}
    models = sorted({s.model for s in score.steps if s.model is not None})
    if models:
        attributes[semconv.JUDGE_MODEL] = ",".join(models)
        if score.cost is not None:
            attributes[semconv.JUDGE_COST] = score.cost
    digests = [s.context.digest for s in score.steps if s.context is not None]
    if digests:
        attributes[semconv.CONTEXT_DIGEST] = digests[0]
    return attributes


def _conversation(run: Run) -> dict[str, Any]:
    """The attributes that only evaluations of conversations have."""
    if not run.turns:
        return {}
    return {
        semconv.GEN_AI_CONVERSATION_ID: run.conversation_id or "",
        semconv.CONVERSATION_TURNS: len(run.turns),
    }


def _response_id(run: Run, span_id: str) -> str | None:
    """The judged operation's response id; for an agent, that of its last inference."""
    for operation in run.operations:
        if operation.span.span_id == span_id:
            return operation.response_id
    return None


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    dump = getattr(value, "model_dump_json", None)
    text = dump() if dump is not None else json.dumps(value, ensure_ascii=False, default=str)
    return str(text)[:_MAX_TEXT]
