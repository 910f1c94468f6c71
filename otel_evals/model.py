"""The records that scorers and destinations receive: spans, operations, runs, scores and evaluations."""

# ruff: noqa: F403, F405  # __all__ is the list
from otel_evals._internal.model import *

__all__ = [
    "Availability",
    "Context",
    "ContextSeen",
    "Direction",
    "Document",
    "Dropped",
    "Evaluation",
    "Loss",
    "Media",
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
    "Verdict",
    "is_missing",
]
