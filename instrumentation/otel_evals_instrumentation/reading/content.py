"""What was said in a span, read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from otel_evals.model import Operation, OperationKind
from otel_evals.model.operations import CONTENT
from otel_evals_instrumentation.reading.documents import read_retrieval
from otel_evals_instrumentation.reading.inputs_outputs import read_inputs_outputs, take_answer, unwrap_state
from otel_evals_instrumentation.reading.span_reader import SpanReader
from otel_evals_instrumentation.reading.tools import read_tool

__all__ = ["SpanContent", "read_content"]

_NOTHING = {f.name: f.default for f in fields(Operation) if f.name in CONTENT}


def read_content(reader: SpanReader, kind: OperationKind) -> None:
    """Read what an operation of this kind has besides its identity."""
    if kind is OperationKind.TOOL:
        read_tool(reader)
    elif kind is OperationKind.RETRIEVAL:
        read_retrieval(reader)
    elif kind is not OperationKind.OTHER:
        read_inputs_outputs(reader)
        if kind is OperationKind.AGENT and reader.events:
            take_answer(reader)
        if kind is OperationKind.WORKFLOW:
            unwrap_state(reader)


class SpanContent:
    """The content of one operation: `otel_evals.model.derived.Derivation`.

    Args:
        open_reader: gives a reader of the span.
        kind: the operation's.
        identity: the operation's other fields.
        refine: the convention's `refine_content`.
    """

    __slots__ = ("_identity", "_kind", "_open_reader", "_refine")

    failed = False
    """Readers do not raise, whatever a span holds."""

    def __init__(
        self,
        open_reader: Callable[[], SpanReader],
        kind: OperationKind,
        identity: Mapping[str, Any],
        refine: Callable[[SpanReader, OperationKind], None] | None,
    ) -> None:
        self._open_reader = open_reader
        self._kind = kind
        self._identity = identity
        self._refine = refine

    def derive(self, _: str) -> Mapping[str, Any]:
        """All of it, since one side tells what the other means."""
        reader = self._open_reader()
        reader.fields.update(self._identity)
        read_content(reader, self._kind)
        if self._refine is not None:
            self._refine(reader, self._kind)
        found = {name: reader.fields[name] for name in CONTENT if name in reader.fields}
        return {**_NOTHING, **found, "availability": reader.availability, "sources": reader.sources}
