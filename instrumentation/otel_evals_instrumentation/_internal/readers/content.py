"""What was said in a span, read when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol

from otel_evals.dialects import CONTENT, Record
from otel_evals.model import Operation, OperationKind, SpanRecord
from otel_evals_instrumentation._internal.readers.attribute_names import AttributeNames, FieldsByAttribute
from otel_evals_instrumentation._internal.readers.documents import read_retrieval
from otel_evals_instrumentation._internal.readers.inputs_outputs import (
    read_inputs_outputs,
    take_answer,
    unwrap_state,
)
from otel_evals_instrumentation._internal.readers.span_reader import SpanReader
from otel_evals_instrumentation._internal.readers.tools import read_tool

OF_TOOLS = ("name", "error", "error_type")
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


class Table(Protocol):
    """What is needed of a convention to read the content of its spans."""

    @property
    def name(self) -> str:
        """Its own."""

    @property
    def names(self) -> AttributeNames:
        """Which attributes hold what."""

    @property
    def index(self) -> FieldsByAttribute:
        """The same by attribute."""

    @property
    def refine_content(self) -> Callable[[SpanReader, OperationKind], None] | None:
        """Reads what a table cannot say."""


class SpanContent(Record, frozen=True):
    """The content of one operation: `otel_evals._internal.model.derived.Derivation`.

    Keeps little besides the span: thousands of runs may wait for their judges.
    """

    convention: Table
    """That which claims the span."""
    span: SpanRecord
    """As its instrumentation recorded it."""
    kind: OperationKind
    """The operation's."""
    identity: tuple[Any, ...] = ()
    """Of a tool's span, what its call repeats."""
    failed: ClassVar[bool] = False
    """Readers do not raise, whatever a span holds."""

    def derive(self, _: str) -> Mapping[str, Any]:
        """All of it, since one side tells what the other means."""
        table = self.convention
        reader = SpanReader(self.span, table.names, table.index, table.name)
        known = zip(OF_TOOLS, self.identity, strict=False)
        reader.fields.update((name, value) for name, value in known if value is not None)
        read_content(reader, self.kind)
        if table.refine_content is not None:
            table.refine_content(reader, self.kind)
        found = {name: reader.fields[name] for name in CONTENT if name in reader.fields}
        return {**_NOTHING, **found, "availability": reader.availability, "sources": reader.sources}
