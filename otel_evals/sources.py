"""Sources: the kit to read stored traces back from a backend."""

from otel_evals._internal.deliver.reading import (
    LARGEST_ANSWER,
    TraceQuery,
    ask,
    moment,
    paged,
)
from otel_evals._internal.otlp.messages import records_of

__all__ = [
    "LARGEST_ANSWER",
    "TraceQuery",
    "ask",
    "moment",
    "paged",
    "records_of",
]
