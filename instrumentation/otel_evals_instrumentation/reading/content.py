"""What was said in a span, read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol

from otel_evals.model import Operation, OperationKind, SpanRecord
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


class ContentReader(Protocol):
    """What a convention does for the content of its spans."""

    @property
    def refine_content(self) -> Callable[[SpanReader, OperationKind], None] | None:
        """Reads what a table of names cannot say."""

    def identify(self, span: SpanRecord, kind: OperationKind) -> SpanReader:
        """A reader of the span that has read all but its content."""


class SpanContent:
    """The content of one operation: `otel_evals.model.derived.Derivation`.

    Keeps no more than the span: while thousands of runs wait for their judges, whatever else it kept of each
    would be there thousands of times.

    Args:
        convention: that which claims the span.
        span: as its instrumentation recorded it.
        kind: the operation's.
    """

    __slots__ = ("_convention", "_kind", "_span")

    failed = False
    """Readers do not raise, whatever a span holds."""

    def __init__(self, convention: ContentReader, span: SpanRecord, kind: OperationKind) -> None:
        self._convention = convention
        self._span = span
        self._kind = kind

    def derive(self, _: str) -> Mapping[str, Any]:
        """All of it, since one side tells what the other means."""
        reader = self._convention.identify(self._span, self._kind)
        read_content(reader, self._kind)
        if self._convention.refine_content is not None:
            self._convention.refine_content(reader, self._kind)
        found = {name: reader.fields[name] for name in CONTENT if name in reader.fields}
        return {**_NOTHING, **found, "availability": reader.availability, "sources": reader.sources}
