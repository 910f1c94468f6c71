"""The attacher of a configuration, for an application and for the gateway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opentelemetry import _logs, trace

from otel_evals import semconv
from otel_evals._internal.attach.attacher import Attacher, SpanScores
from otel_evals._internal.attach.evaluation_spans import EvaluationSpans
from otel_evals._internal.attach.metrics import Measured, Metrics
from otel_evals._internal.attach.providers import unwrapped
from otel_evals._internal.config.options import Config
from otel_evals._internal.deliver.destination import EventPreset
from otel_evals._internal.model import Evaluation, Run
from otel_evals._internal.util.version import __version__


def new_attacher(
    config: Config,
    spans: EvaluationSpans | None,
    loggers: Any,
    scores: SpanScores | None,
    note: Callable[[Run, Evaluation], object] | None = None,
) -> Attacher:
    """Return an attacher with everything but metrics.

    Args:
        config: says in which ways outcomes are attached.
        spans: the evaluation spans.
        loggers: the provider for evaluation events.
        scores: the attributes of held spans.
        note: is called with each evaluation.
    """
    logger = _logs.get_logger(semconv.SCOPE_NAME, __version__, loggers) if config.evaluation_events else None
    presets = [each for each in config.destinations if isinstance(each, EventPreset)]
    return Attacher(spans, logger, None, scores, presets, proposed=config.semconv == "proposed", note=note)


def new_evaluation_spans(config: Config, application: Any, own: Any = None) -> EvaluationSpans | None:
    """Return the evaluation spans of the application's provider, or of one of their own; None if disabled."""
    if not config.evaluation_spans:
        return None
    same_trace = config.evaluation_spans == "same_trace"
    provider = application if same_trace else own or unwrapped(application)
    tracer = trace.get_tracer(semconv.SCOPE_NAME, __version__, provider)
    proposed = config.semconv == "proposed"
    return EvaluationSpans(tracer, same_trace=same_trace, own_service=own is None, proposed=proposed)


def new_metrics(config: Config, meter: Any, look: Callable[[], Measured]) -> Metrics:
    """Return the metrics of a configuration; `look` returns the counters."""
    return Metrics(meter, look, {r.name: r.facts.scale for r in config.rules}, config.metric_attributes)
