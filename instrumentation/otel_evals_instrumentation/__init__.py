"""Reads the spans of agent frameworks and instrumentations, and records spans of hand-written agents.

This module has the public names: decorators and their spans. Span conventions are found through the
entry-point group `otel_evals_convention`.
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
