"""Attaches evaluations in the ways that are switched on.

The event is `gen_ai.evaluation.result` of the GenAI semantic conventions; everything else is in the
`otel_evals` namespace. Event and span carry the same evaluation id.
"""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
from opentelemetry import context as context_api
from opentelemetry import trace
from opentelemetry._logs import Logger, LogRecord, SeverityNumber
from opentelemetry.context import Context

from otel_evals import semconv
from otel_evals._internal.attach import records
from otel_evals._internal.attach.evaluation_spans import EvaluationSpans, OwnSpan, judged_context
from otel_evals._internal.attach.hold import PendingScores
from otel_evals._internal.attach.metrics import Metrics
from otel_evals._internal.deliver.destination import EventPreset
from otel_evals._internal.model import Evaluation, NotScored, Run, Score, ScorerFailure
from otel_evals._internal.model.evaluations import scored_span
from otel_evals._internal.trust.keys import SECONDS
from otel_evals._internal.trust.marks import marks_of
from otel_evals._internal.util.error_log import log_error
from otel_evals._internal.util.plain import type_name

_logger = logging.getLogger(__name__)


class Opened(msgspec.Struct, gc=False):
    """An evaluation that has begun."""

    span: OwnSpan
    """Stands for the evaluation span."""
    context: contextvars.Context
    """What the scorer runs in: below that span, and marked, so that nothing in it is scored."""
    span_id: str
    """The judged span, or the current one for a check."""
    judged: Context | None = None
    """That span is current in it; None if nothing needed it so far."""


Way = Callable[[Run, Evaluation, Opened | None], object]
"""Attaches an outcome."""


class Attacher:
    """Opens an evaluation before its scorer runs and attaches its outcome; used on the engine's thread.

    Evaluation spans, events, metrics and attributes of held spans are each None if disabled. Presets add
    attributes for their backends to evaluation events, and `proposed` those proposed for the conventions;
    `note` is called with each evaluation.
    """

    def __init__(
        self,
        spans: EvaluationSpans | None,
        logger: Logger | None,
        metrics: Metrics | None,
        scores: PendingScores | None,
        presets: Iterable[EventPreset] = (),
        *,
        proposed: bool = False,
        note: Way | None = None,
    ) -> None:
        self._note = note
        self._spans = spans
        self._logger = logger
        self.metrics = metrics
        """None if disabled."""
        self.scores = scores
        """Attributes of judged spans that are held back until they are released; None if disabled."""
        self._proposed = proposed
        self._presets = tuple(reversed(list(presets)))  # the first that names an attribute counts
        self._choose_ways()

    def _choose_ways(self) -> None:
        ways = [
            (self.metrics, self._record),
            (self._spans, self._end_span),
            (self._logger, self._emit_event),
            (self.scores, self._add_attributes),
            (self._note, self._note),
        ]
        self._ways = [way for outlet, way in ways if outlet is not None and way is not None]

    def measure_with(self, metrics: Metrics) -> None:
        """Record evaluations as metrics."""
        self.metrics = metrics
        self._choose_ways()

    def release_metrics(self) -> None:
        """Count everything that waits for a collection."""
        if self.metrics is not None:
            self.metrics.estimates.release()

    def record_with(self, spans: EvaluationSpans | None) -> None:
        """Replace how evaluation spans are recorded; None disables them."""
        self._spans = spans
        self._choose_ways()

    def open(
        self, run: Run, span_id: str, rule: str, scorer_id: str, start_time: int, context: contextvars.Context
    ) -> Opened:
        """Begin the evaluation of a span at a time in nanoseconds; its scorer will run in the context.

        Never raises: without an evaluation span, scoring continues.
        """
        if self.metrics is not None and (rule, run.agent_name or "") not in self.metrics.estimates.expected:
            try:
                self.metrics.estimates.expect(rule, run)
            except BaseException as error:  # a meter of the application
                message = "metrics of rule %s could not be started"
                log_error(_logger, message, rule, error=error, level=logging.WARNING)
        span: OwnSpan | None = None
        if self._spans is not None:
            try:
                span = self._spans.open(run, span_id, scorer_id, start_time)
            except BaseException as error:  # a span processor of the application
                log_error(_logger, "no evaluation span for %s", scorer_id, error=error, level=logging.WARNING)
        span = OwnSpan(run) if span is None else span
        marked = marks_of(int(time.time()) // SECONDS).context
        # Never detached: the context is this attempt's own.
        context.run(context_api.attach, trace.set_span_in_context(span, marked))
        return Opened(span, context, span_id, span.judged)

    def attach(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        """Attach an outcome in every enabled way; `opened` is None if its scorer never ran. Never raises."""
        # Each by itself: a way that fails must not keep the outcome from the others.
        for way in self._ways:
            try:
                way(run, evaluation, opened)
            except BaseException as error:
                message = "an evaluation of %s could not be attached"
                log_error(_logger, message, evaluation.scorer_id, error=error)

    def retry(self, opened: Opened, end_time: int | None = None) -> None:
        """End an attempt that is made again, now by default. Never raises."""
        if self._spans is not None:
            try:
                self._spans.retry(opened.span, end_time)
            except BaseException as error:  # a span processor of the application
                message = "an evaluation span could not be ended"
                log_error(_logger, message, error=error, level=logging.WARNING)

    def _record(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        if self.metrics is not None:
            judged = _judged(opened, run, evaluation) if opened is not None else None
            self.metrics.record(run, evaluation, judged)

    def _end_span(self, _: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        steps: object = getattr(evaluation.outcome, "steps", ())
        # If nothing was written on it and no step was made, the span is never created.
        if self._spans is not None and opened is not None and (opened.span.needed or steps):
            self._spans.end(opened.span, evaluation, result_attributes(evaluation))

    def _emit_event(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        if self._logger is not None and isinstance(evaluation.outcome, Score | ScorerFailure):
            more: dict[str, Any] = records.proposed_attributes(evaluation) if self._proposed else {}
            for preset in self._presets:
                try:
                    more.update(preset.event_attributes(run, evaluation))
                except BaseException as error:  # the event leaves without this preset's attributes
                    log_error(_logger, "%s has no event attributes", type_name(preset), error=error)
            about = _about(run, evaluation)
            named = about != evaluation.span_id
            judged = judged_context(run, about) if named else _judged(opened, run, evaluation)
            emit_event(self._logger, run, evaluation, about, judged, more)

    def show(self, run: Run, evaluation: Evaluation) -> None:
        """Add the attributes of an evaluation that ended before its span did. Never raises."""
        try:
            self._add_attributes(run, evaluation, None)
        except BaseException as error:
            log_error(_logger, "attributes of %s could not be added", evaluation.scorer_id, error=error)

    def _add_attributes(self, run: Run, evaluation: Evaluation, _: Opened | None) -> None:
        if self.scores is not None and not run.turns:  # no span is held until its conversation ends
            latest = evaluation.scorer_id, evaluation.revision, span_attributes(evaluation)
            # A score about one operation is shown there and on the judged span.
            for span_id in {evaluation.span_id, _about(run, evaluation)}:
                self.scores.add(int(evaluation.trace_id, 16), int(span_id, 16), *latest)


def _about(run: Run, evaluation: Evaluation) -> str:
    """Return the span that a score is about."""
    named = isinstance(evaluation.outcome, Score) and evaluation.outcome.span_id is not None
    return scored_span(run, evaluation) if named else evaluation.span_id


def _judged(opened: Opened | None, run: Run, evaluation: Evaluation) -> Context:
    """Return the context of the judged span, or a check's current span, built on first use."""
    if opened is None:
        return judged_context(run, evaluation.span_id)
    if opened.judged is None:
        opened.judged = judged_context(run, opened.span_id)
    return opened.judged


def span_attributes(evaluation: Evaluation) -> dict[str, Any]:
    """Return the attributes of a score on the judged span; other outcomes have none, checks their effect."""
    score = evaluation.outcome
    name = f"{semconv.SCORE_PREFIX}{evaluation.scorer_id}"
    attributes: dict[str, Any] = {}
    if evaluation.verdict is not None:
        attributes[f"{name}.verdict"] = evaluation.verdict
    if evaluation.effect is not None:
        attributes[f"{name}.effect"] = evaluation.effect
    if not isinstance(score, Score):
        return attributes
    attributes[name] = float(score.value)
    attributes[f"{name}.evaluation_id"] = evaluation.evaluation_id
    if score.label is not None:
        attributes[f"{name}.label"] = score.label[: records.MAX_LABEL]
    if score.span_id is not None:
        attributes[f"{name}.operation"] = score.span_id
    if score.explanation:
        attributes[f"{name}.explanation"] = score.explanation[: records.MAX_TEXT]
    return attributes


def result_attributes(evaluation: Evaluation) -> dict[str, Any]:
    """Return the attributes that the evaluation event and the evaluation span share."""
    attributes: dict[str, Any] = {
        semconv.GEN_AI_EVALUATION_NAME: evaluation.scorer_id,
        semconv.EVALUATION_ID: evaluation.evaluation_id,
        semconv.EVALUATION_REVISION: evaluation.revision,
        semconv.SCORER_VERSION: evaluation.scorer_version,
        semconv.SAMPLING_RULE: evaluation.sampled.rule,
    }
    if evaluation.sampled.probability is not None:
        attributes[semconv.SAMPLING_PROBABILITY] = evaluation.sampled.probability
    if evaluation.verdict is not None:
        attributes[semconv.CHECK_VERDICT] = evaluation.verdict
    if evaluation.effect is not None:
        attributes[semconv.CHECK_EFFECT] = evaluation.effect
    match evaluation.outcome:
        case Score() as score:
            attributes.update(_score(score))
        case NotScored() as missing:
            attributes[semconv.EVALUATION_REASON] = missing.reason
            if missing.explanation:
                attributes[semconv.GEN_AI_EVALUATION_EXPLANATION] = missing.explanation[: records.MAX_TEXT]
        case ScorerFailure() as failure:
            attributes[semconv.ERROR_TYPE] = failure.error_type
            attributes[semconv.GEN_AI_EVALUATION_EXPLANATION] = failure.message[: records.MAX_TEXT]
    return attributes


def _score(score: Score) -> dict[str, Any]:
    attributes: dict[str, Any] = {semconv.GEN_AI_EVALUATION_SCORE_VALUE: float(score.value)}
    if score.label is not None:
        attributes[semconv.GEN_AI_EVALUATION_SCORE_LABEL] = score.label[: records.MAX_LABEL]
    if score.explanation:
        attributes[semconv.GEN_AI_EVALUATION_EXPLANATION] = score.explanation[: records.MAX_TEXT]
    if score.span_id is not None:
        attributes[semconv.SCORE_OPERATION] = score.span_id
    if score.agreement is not None:
        attributes[semconv.JUDGE_AGREEMENT] = score.agreement
    return {**attributes, **_judges(score)} if score.steps else attributes


def _judges(score: Score) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    # Sorted: the same judges always result in the same value.
    models = sorted({s.model for s in score.steps if s.model is not None})
    if models:
        attributes[semconv.JUDGE_MODEL] = ",".join(models)
        if score.cost is not None:
            attributes[semconv.JUDGE_COST] = score.cost
    if score.evidence_cut:
        attributes[semconv.EVIDENCE_CUT] = True
    digests = [s.context.digest for s in score.steps if s.context is not None]
    if digests:
        attributes[semconv.CONTEXT_DIGEST] = digests[0]
    return attributes


def emit_event(
    logger: Logger,
    run: Run,
    evaluation: Evaluation,
    about: str,
    judged: Context,
    more: Mapping[str, Any] | None = None,
) -> None:
    """Emit the evaluation event of a score or a failure in the context of the span that it is `about`.

    Attributes that backends ask for, in `more`, replace none of the event's own.
    """
    attributes = {**(more or {}), **result_attributes(evaluation)}
    if run.turns:
        attributes.update(records.conversation_attributes(run))
    for operation in run.operations:
        if operation.span.span_id == about:
            if operation.response_id is not None:
                attributes[semconv.GEN_AI_RESPONSE_ID] = operation.response_id
            break
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
