"""Attaches evaluations in the ways that are switched on.

The event is `gen_ai.evaluation.result` of the GenAI semantic conventions; everything else is in the
`otel_evals` namespace. Event and span carry the same evaluation id.
"""

from __future__ import annotations

import contextvars
import logging
from collections.abc import Callable, Iterable
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
from otel_evals._internal.attach.records import Attributes
from otel_evals._internal.deliver.destination import EventPreset
from otel_evals._internal.model import Evaluation, NotScored, Run, Score, ScorerFailure
from otel_evals._internal.model.evaluations import scored_span
from otel_evals._internal.trust.marks import marked_context
from otel_evals._internal.util.error_log import log_error, safely
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
_WayTo = Callable[[Any, Run, Evaluation, Opened | None], object]
"""Attaches an outcome to what it is given first."""


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
        ways: list[tuple[Any, _WayTo]] = [
            (self.metrics, _record),
            (self._spans, _end_span),
            (self._logger, self._emit_event),
            (self.scores, _add_attributes),
            (self._note, _call),
        ]
        self._ways = [(outlet, way) for outlet, way in ways if outlet is not None]

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
        metrics = self.metrics
        if metrics is not None and (rule, run.agent_name or "") not in metrics.estimates.expected:
            # A meter of the application may raise.
            message = f"metrics of rule {rule} could not be started"
            safely(lambda: metrics.estimates.expect(rule, run), message)
        span: OwnSpan | None = None
        if self._spans is not None:
            try:
                span = self._spans.open(run, span_id, scorer_id, start_time)
            except BaseException as error:  # a span processor of the application
                log_error(_logger, "no evaluation span for %s", scorer_id, error=error, level=logging.WARNING)
        span = OwnSpan(run) if span is None else span
        marked = marked_context()
        # Never detached: the context is this attempt's own.
        context.run(context_api.attach, trace.set_span_in_context(span, marked))
        return Opened(span, context, span_id, span.judged)

    def attach(self, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        """Attach an outcome in every enabled way; `opened` is None if its scorer never ran. Never raises."""
        # Each by itself: a way that fails must not keep the outcome from the others.
        for outlet, way in self._ways:
            try:
                way(outlet, run, evaluation, opened)
            except BaseException as error:
                message = "an evaluation of %s could not be attached"
                log_error(_logger, message, evaluation.scorer_id, error=error)

    def retry(self, opened: Opened, end_time: int | None = None) -> None:
        """End an attempt that is made again, now by default. Never raises."""
        spans = self._spans
        if spans is not None:  # a span processor of the application may raise
            safely(lambda: spans.retry(opened.span, end_time), "an evaluation span could not be ended")

    def _emit_event(self, logger: Logger, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
        if not isinstance(evaluation.outcome, Score | ScorerFailure):
            return
        more: Attributes = records.proposed_attributes(evaluation) if self._proposed else {}
        for preset in self._presets:
            try:
                more.update(preset.event_attributes(run, evaluation))
            except BaseException as error:  # the event leaves without this preset's attributes
                log_error(_logger, "%s has no event attributes", type_name(preset), error=error)
        about = _about(run, evaluation)
        more |= result_attributes(evaluation)  # a preset replaces none of these
        if run.turns:
            more.update(records.conversation_attributes(run))
        for operation in run.operations:
            if operation.span.span_id == about:
                if operation.response_id is not None:
                    more[semconv.GEN_AI_RESPONSE_ID] = operation.response_id
                break
        failed = isinstance(evaluation.outcome, ScorerFailure)
        logger.emit(
            LogRecord(
                timestamp=evaluation.time,
                observed_timestamp=evaluation.time,
                context=_judged(opened if about == evaluation.span_id else None, run, about),
                severity_number=SeverityNumber.WARN if failed else SeverityNumber.INFO,
                event_name=semconv.GEN_AI_EVALUATION_RESULT,
                attributes=more,
            )
        )

    def show(self, run: Run, evaluation: Evaluation) -> None:
        """Add the attributes of an evaluation that ended before its span did. Never raises."""
        scores = self.scores
        if scores is not None:
            message = f"attributes of {evaluation.scorer_id} could not be added"
            safely(lambda: _add_attributes(scores, run, evaluation, None), message)


def _record(metrics: Metrics, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
    metrics.record(run, evaluation, None if opened is None else _judged(opened, run, opened.span_id))


def _end_span(spans: EvaluationSpans, _: Run, evaluation: Evaluation, opened: Opened | None) -> None:
    steps: object = getattr(evaluation.outcome, "steps", ())
    # If nothing was written on it and no step was made, the span is never created.
    if opened is not None and (opened.span.needed or steps):
        spans.end(opened.span, evaluation, result_attributes(evaluation))


def _add_attributes(scores: PendingScores, run: Run, evaluation: Evaluation, _: Opened | None) -> None:
    if not run.turns:  # no span is held until its conversation ends
        latest = evaluation.scorer_id, evaluation.revision, span_attributes(evaluation)
        # A score about one operation is shown there and on the judged span.
        for span_id in {evaluation.span_id, _about(run, evaluation)}:
            scores.add(int(evaluation.trace_id, 16), int(span_id, 16), *latest)


def _call(note: Way, run: Run, evaluation: Evaluation, opened: Opened | None) -> None:
    note(run, evaluation, opened)


def _about(run: Run, evaluation: Evaluation) -> str:
    """Return the span that a score is about."""
    named = isinstance(evaluation.outcome, Score) and evaluation.outcome.span_id is not None
    return scored_span(run, evaluation) if named else evaluation.span_id


def _judged(opened: Opened | None, run: Run, span_id: str) -> Context:
    """Return the context of this span, or of the one of an opened evaluation, built on first use."""
    if opened is None:
        return judged_context(run, span_id)
    if opened.judged is None:
        opened.judged = judged_context(run, opened.span_id)
    return opened.judged


def span_attributes(evaluation: Evaluation) -> Attributes:
    """Return the attributes of a score on the judged span; other outcomes have none, checks their effect."""
    score = evaluation.outcome
    name = f"{semconv.SCORE_PREFIX}{evaluation.scorer_id}"
    attributes: Attributes = {
        f"{name}.verdict": evaluation.verdict,
        f"{name}.effect": evaluation.effect,
    }
    if isinstance(score, Score):
        attributes[name] = float(score.value)
        attributes[f"{name}.evaluation_id"] = evaluation.evaluation_id
        attributes[f"{name}.label"] = score.label and score.label[: records.MAX_LABEL]
        attributes[f"{name}.operation"] = score.span_id
        if score.explanation:
            attributes[f"{name}.explanation"] = score.explanation[: records.MAX_TEXT]
    return _known(attributes)


def _known(attributes: Attributes) -> Attributes:
    return {name: value for name, value in attributes.items() if value is not None}


def result_attributes(evaluation: Evaluation) -> Attributes:
    """Return the attributes that the evaluation event and the evaluation span share."""
    attributes: Attributes = {
        semconv.GEN_AI_EVALUATION_NAME: evaluation.scorer_id,
        semconv.EVALUATION_ID: evaluation.evaluation_id,
        semconv.EVALUATION_REVISION: evaluation.revision,
        semconv.SCORER_VERSION: evaluation.scorer_version,
        semconv.SAMPLING_RULE: evaluation.sampled.rule,
        semconv.SAMPLING_PROBABILITY: evaluation.sampled.probability,
        semconv.CHECK_VERDICT: evaluation.verdict,
        semconv.CHECK_EFFECT: evaluation.effect,
    }
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
    return _known(attributes)


def _score(score: Score) -> Attributes:
    attributes: Attributes = {
        semconv.GEN_AI_EVALUATION_SCORE_VALUE: float(score.value),
        semconv.GEN_AI_EVALUATION_SCORE_LABEL: score.label and score.label[: records.MAX_LABEL],
        semconv.SCORE_OPERATION: score.span_id,
        semconv.JUDGE_AGREEMENT: score.agreement,
    }
    if score.explanation:
        attributes[semconv.GEN_AI_EVALUATION_EXPLANATION] = score.explanation[: records.MAX_TEXT]
    return {**attributes, **_judges(score)} if score.steps else attributes


def _judges(score: Score) -> Attributes:
    attributes: Attributes = {}
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
