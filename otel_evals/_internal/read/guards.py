"""Guardrails and evaluators, whose model calls have no answer for the user."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from otel_evals._internal.model import Operation, OperationKind

_ATTRIBUTES = """
openinference.span.kind gen_ai.operation.name gen_ai.span.kind traceloop.span.kind
langfuse.observation.type langwatch.span.type mlflow.spanType mastra.span.type type
"""
_KINDS: Final = frozenset(_ATTRIBUTES.split())
"""Attributes for the kind of a span, by convention."""
_GUARD: Final = re.compile(r'guardrail|^"?(?:evaluat|moderation)', re.IGNORECASE)


def is_guard(operation: Operation) -> bool:
    """Return True for a guardrail's or an evaluator's operation."""
    if operation.kind is not OperationKind.OTHER:
        return False
    attributes = operation.span.attributes
    for key in _KINDS.intersection(attributes):
        kind = attributes[key]
        if type(kind) is str and _GUARD.search(kind):
            return True
    return False


def outside_guards(operations: Sequence[Operation], above: Mapping[str, str | None]) -> Sequence[Operation]:
    """Return the operations outside of guards; `above` maps each span to its nearest operation above."""
    inside = {operation.span_id for operation in operations if is_guard(operation)}
    if not inside:
        return operations
    for operation in operations:  # sorted by start: parents come first
        if above.get(operation.span_id) in inside:
            inside.add(operation.span_id)
    return [operation for operation in operations if operation.span_id not in inside]
