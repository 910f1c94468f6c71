"""Sources: the kit to read stored traces, or feedback from people, back from a backend."""

from otel_evals._internal.deliver.feedback import FeedbackQuery, ask, moment, paged, readable
from otel_evals._internal.deliver.stored_traces import LARGEST_ANSWER, TraceQuery
from otel_evals._internal.model.otlp_json import records_of

__all__ = [
    "LARGEST_ANSWER",
    "FeedbackQuery",
    "TraceQuery",
    "ask",
    "moment",
    "paged",
    "readable",
    "records_of",
]
