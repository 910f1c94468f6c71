"""Attaches scores to traces: span attributes, evaluation events, evaluation spans, metrics."""

from otel_evals.attachment.attacher import Attacher, Opened
from otel_evals.attachment.evaluation_spans import EvaluationSpans
from otel_evals.attachment.hold import PendingScores, ScoringSpanExporter
from otel_evals.attachment.metrics import Metrics

__all__ = ["Attacher", "EvaluationSpans", "Metrics", "Opened", "PendingScores", "ScoringSpanExporter"]
