"""Sources: the kit to read stored traces, or feedback from people, back from a backend."""

from otel_evals._internal.deliver.reading import (
    LARGEST_ANSWER,
    FeedbackQuery,
    TraceQuery,
    ask,
    moment,
    paged,
    readable,
)
from otel_evals._internal.otlp.messages import records_of

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
