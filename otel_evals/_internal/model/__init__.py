"""The records that pass through the pipeline, from span to score.

All are frozen. Ids are lower-case hex (32 digits for a trace, 16 for a span), times are nanoseconds since
the Unix epoch, durations are seconds.
"""

from __future__ import annotations

from otel_evals._internal.model.evaluations import (
    Context,
    ContextSeen,
    Direction,
    Dropped,
    Evaluation,
    Feedback,
    NotScored,
    Outcome,
    Sampled,
    Score,
    ScoredRun,
    ScorerFailure,
    Status,
    StepRecord,
    is_missing,
)
from otel_evals._internal.model.operations import (
    Availability,
    Document,
    Message,
    Operation,
    OperationKind,
    Part,
    Source,
    ToolCall,
    Usage,
)
from otel_evals._internal.model.runs import Run
from otel_evals._internal.model.spans import Loss, SpanEvent, SpanRecord

__all__ = [
    "Availability",
    "Context",
    "ContextSeen",
    "Direction",
    "Document",
    "Dropped",
    "Evaluation",
    "Feedback",
    "Loss",
    "Message",
    "NotScored",
    "Operation",
    "OperationKind",
    "Outcome",
    "Part",
    "Run",
    "Sampled",
    "Score",
    "ScoredRun",
    "ScorerFailure",
    "Source",
    "SpanEvent",
    "SpanRecord",
    "Status",
    "StepRecord",
    "ToolCall",
    "Usage",
    "is_missing",
]
