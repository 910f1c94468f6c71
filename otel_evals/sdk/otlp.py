"""OTLP messages: read requests, and edit them in place."""

from otel_evals._internal.otlp.messages import attributes_of, log_event, span_record
from otel_evals._internal.otlp.wire import Place, attribute_bytes, envelope, opened, parts_of, without

__all__ = [
    "Place",
    "attribute_bytes",
    "attributes_of",
    "envelope",
    "log_event",
    "opened",
    "parts_of",
    "span_record",
    "without",
]
