"""OTLP messages: read files and requests, and edit requests in place."""

from otel_evals._internal.otlp.files import read_requests
from otel_evals._internal.otlp.protobuf import attributes_of, log_event, span_record
from otel_evals._internal.otlp.wire import Place, attribute_bytes, envelope, opened, parts_of, without

__all__ = [
    "Place",
    "attribute_bytes",
    "attributes_of",
    "envelope",
    "log_event",
    "opened",
    "parts_of",
    "read_requests",
    "span_record",
    "without",
]
