"""OTLP messages as the records of the model."""

from otel_evals._internal.otlp.messages import attributes_of, log_event, span_record

__all__ = ["attributes_of", "log_event", "span_record"]
