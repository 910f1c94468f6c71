"""Reads the spans of agent frameworks and instrumentations, and writes those of hand-written agents.

`conventions` has one module per span convention, found through the entry-point group `otel_evals_dialect`;
`reading` is what they share; `decorators` makes spans. What users import is here.
"""

from otel_evals_instrumentation._internal.decorators.decorators import (
    agent,
    inference,
    retrieval,
    tool,
    workflow,
)
from otel_evals_instrumentation._internal.decorators.spans import (
    AgentSpan,
    InferenceSpan,
    RetrievalSpan,
    ToolSpan,
    WorkflowSpan,
)

__all__ = [
    "AgentSpan",
    "InferenceSpan",
    "RetrievalSpan",
    "ToolSpan",
    "WorkflowSpan",
    "agent",
    "inference",
    "retrieval",
    "tool",
    "workflow",
]
