"""The way in: one module per span convention, found through entry points; spans for hand-written agents."""

from otel_evals_instrumentation.decorators import agent, inference, retrieval, tool, workflow
from otel_evals_instrumentation.spans import AgentSpan, InferenceSpan, RetrievalSpan, ToolSpan, WorkflowSpan

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
