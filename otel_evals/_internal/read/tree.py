"""Reads the operations of a trace, their content on demand, and links them to a tree.

An operation's availability depends on all the others.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from math import inf
from operator import itemgetter
from typing import Any, Final

import msgspec

from otel_evals._internal.model import Operation, OperationKind, SpanRecord
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.model.operations import CONTENT
from otel_evals._internal.model.records import DERIVATION, Derivation, Fields, ReadOnlyDict, read_only
from otel_evals._internal.read.availability import mark_truncated
from otel_evals._internal.read.logged import with_details
from otel_evals._internal.util.error_log import log_error

INVOCATIONS = (OperationKind.AGENT, OperationKind.WORKFLOW)
Parents = Mapping[str, str | None]
"""The id of the span, or of the nearest operation, above each span."""
_ATTRIBUTES = """
openinference.span.kind gen_ai.operation.name gen_ai.span.kind traceloop.span.kind
langfuse.observation.type langwatch.span.type mlflow.spanType mastra.span.type type
"""
_KINDS: Final = frozenset(_ATTRIBUTES.split())
"""Attributes for the kind of a span, by convention."""
# Backends that store attributes as JSON keep the quotes.
_GUARD: Final = re.compile(r'guardrail|^"?(?:evaluat|moderation)', re.IGNORECASE)
_MAY_LEAK: Final = (OperationKind.INFERENCE, OperationKind.AGENT)
"""Kinds whose spans libraries leave as the current one after their end."""
_MILLISECOND: Final = 1_000_000


class Tree(msgspec.Struct, frozen=True, eq=False):
    """The operations of a trace, and how they contain each other."""

    operations: dict[str, Operation]
    """By span id, sorted by start."""
    above: dict[str, str | None]
    """Each operation's nearest operation above."""
    below: dict[str, tuple[str, ...]]
    """The operations directly below each one, if there are any."""
    guards: frozenset[str]
    """Guardrails and evaluators, whose model calls have no answer for the user."""

    def inside(self, top: Operation) -> Iterator[Operation]:
        """Yield all operations below one, depth first."""
        stack = list(reversed(self.below.get(top.span_id, ())))
        while stack:
            span_id = stack.pop()
            yield self.operations[span_id]
            stack.extend(reversed(self.below.get(span_id, ())))


def read_tree(records: Iterable[SpanRecord], parents: Parents, conventions: Conventions) -> Tree:
    """Read spans, and link the operations to a tree, given the parents of all spans."""
    # Next to claimed spans, these events repeat calls that are counted already.
    found = _read(records, conventions) or _read(with_details(records), conventions)
    found.sort(key=itemgetter(0, 1, 2))
    operations = dict(map(itemgetter(2, 3), found))
    above = _nearest(operations, parents)
    below: dict[str, Any] = {}
    for span_id in operations:
        parent = above[span_id]
        if parent is not None:
            below.setdefault(parent, []).append(span_id)
    for parent, children in below.items():
        below[parent] = tuple(children)
    return Tree(operations, above, below, guards_in(operations.values()))


def guards_in(operations: Iterable[Operation]) -> frozenset[str]:
    """Return the span ids of guardrails and evaluators."""
    return frozenset(o.span_id for o in operations if o.kind is OperationKind.OTHER and _is_guard(o))


def _is_guard(operation: Operation) -> bool:
    attributes = operation.span.attributes
    return any(_GUARD.search(str(attributes[key])) for key in _KINDS.intersection(attributes))


def outside(guards: frozenset[str], operations: Sequence[Operation], above: Parents) -> Sequence[Operation]:
    """Return the operations outside of guards."""
    inside = {o.span_id for o in operations if o.span_id in guards}
    for operation in operations:  # sorted by start: parents come first
        if above.get(operation.span_id) in inside:
            inside.add(operation.span_id)
    return [operation for operation in operations if operation.span_id not in inside]


def upward(span_id: str | None, parents: Parents) -> Iterator[str]:
    """Yield a span's id and those above it. Senders write the parents, which may form a loop."""
    seen: set[str] = set()
    while span_id is not None and span_id not in seen:
        seen.add(span_id)
        yield span_id
        span_id = parents.get(span_id)


def parents_in(children: Mapping[str, Iterable[str]]) -> dict[str, str | None]:
    """Return the parent of each child."""
    return {child: parent for parent, below in children.items() for child in below}


def in_order(operation: Operation) -> tuple[int, int, str]:
    """Sort by start, then by end, the latest first."""
    span = operation.span
    return span.start_time, -(span.end_time or 0), span.span_id


def is_during(inner: SpanRecord, outer: SpanRecord) -> bool:
    """Return True if a span started and ended during another."""
    ended = inner.end_time is not None and outer.end_time is not None and inner.end_time <= outer.end_time
    return ended and outer.start_time <= inner.start_time


def is_before(end: int, start: int) -> bool:
    """Return True if a span had ended when another started; JavaScript rounds starts to milliseconds."""
    return end <= start or (start % _MILLISECOND == 0 and end - start < _MILLISECOND)


def _nearest(operations: Mapping[str, Operation], parents: Parents) -> dict[str, str | None]:
    """Return each operation's nearest operation above. Cycles are cut at their first span."""
    above: dict[str, str | None] = {}
    in_order = True
    for span_id in operations:
        parent = parents.get(span_id)
        if parent is not None and parent not in operations:
            parent = next(filter(operations.__contains__, upward(parent, parents)), None)
        if parent is not None:
            over, start = operations[parent], operations[span_id].span.start_time
            may_leak = over.kind in _MAY_LEAK and (over.span.end_time or inf) <= start
            if may_leak and _came_after(operations[span_id], over):
                # The parent ended before this span began, so it comes first in the order by start.
                parent = above.get(parent)
        above[span_id] = None if parent == span_id else parent
        in_order = in_order and (parent is None or parent in above)
    if in_order:  # every span comes after the one above it, so there is no cycle
        return above
    known: set[str | None] = {None}
    for span_id in operations:
        seen = {span_id}
        parent = above[span_id]
        while parent not in known and parent not in seen:
            seen.add(parent)  # type: ignore[arg-type]  # None is known
            parent = above[parent]  # type: ignore[index]
        if parent == span_id:
            above[span_id] = None
        if parent in known or parent == span_id:  # no cycle is left above these
            known |= seen
    return above


def _came_after(operation: Operation, parent: Operation) -> bool:
    """Return True if a parent was still the current span after its end, when an operation below it began.

    A streamed agent's span may end before its work, but then it has no answer.
    """
    if parent.span.scope_name != operation.span.scope_name:
        return False
    if parent.kind is OperationKind.AGENT:
        return operation.kind is OperationKind.AGENT and bool(parent.output_messages)
    return operation.kind in (*INVOCATIONS, OperationKind.INFERENCE)


# --- Content, read on demand ---


_logger = logging.getLogger(__name__)
_MOST_LOGGED: Final = 20

_AVAILABILITY: Final = ("availability", "sources")


_logged: set[str] = set()
"""Instrumentation scopes with unreadable spans that were logged as a warning."""


def _read(records: Iterable[SpanRecord], conventions: Conventions) -> list[tuple[int, int, str, Operation]]:
    """Return the operations of a trace after what orders them: start, end (the latest first) and span id."""
    found: list[tuple[int, int, str, Operation]] = []
    for record in records:
        operation = conventions.read(record)
        if operation is not None:
            span = operation.span
            found.append((span.start_time, -(span.end_time or 0), span.span_id, operation))
    _defer_content(map(itemgetter(3), found))
    return found


def _defer_content(operations: Iterable[Operation]) -> None:
    """Defer reading the content of new operations to its first use.

    Truncated JSON can be recognised, truncated text cannot. But an attribute length limit is the same for
    all attributes: if truncated JSON has the greatest length in the trace, a text of that length is
    truncated too. An operation's availability therefore depends on all the others.
    """
    contents: list[_Content] = []
    trace = _TraceContent(())
    for operation in operations:
        values = operation.__dict__
        derivation, found = values.get(DERIVATION), None
        if derivation is None:
            found = {name: getattr(operation, name) for name in _AVAILABILITY}
        content = _Content(operation.span, derivation, found)
        contents.append(content)
        # An operation's own values would hide those of the trace, which include cuts by a length limit.
        values.pop("availability", None)
        values.pop("sources", None)
        values[DERIVATION] = _ContentOfTrace(content, trace)
    trace.contents = tuple(contents)


class _TraceContent(msgspec.Struct, eq=False, gc=False):
    """The content of a trace's operations."""

    contents: tuple[_Content, ...]
    marked: bool = False


class _Content(msgspec.Struct, eq=False, gc=False):
    """The content of a span, without a reference to its operation: neither keeps the other alive."""

    span: SpanRecord
    derivation: Derivation | None
    known: Fields | None
    failed: bool = False

    def found(self) -> Fields:
        """Return the fields that were left to be read."""
        if self.known is None and self.derivation is not None:
            found = self._read(self.derivation)
            if self.known is None:  # another thread may have been first; both found the same
                self.known = found
        return self.known or {}

    def _read(self, derivation: Derivation) -> Fields:
        try:
            found = {"tool_definitions": (), **derivation.derive("availability")}
            if found["tool_definitions"]:
                found["tool_definitions"] = read_only(found["tool_definitions"])
            return found
        except BaseException as error:  # a third-party convention must not fail the scorer
            # Every span of a broken convention fails: one warning per scope is enough.
            logged = self.span.scope_name in _logged or len(_logged) >= _MOST_LOGGED
            level = logging.DEBUG if logged else logging.WARNING
            if not logged:
                _logged.add(self.span.scope_name)
            message = "the content of span %s could not be read"
            log_error(_logger, message, self.span.span_id, error=error, level=level)
            self.failed = True
            return dict(_NOTHING_FOUND, availability={}, sources={})


class _ContentOfTrace(msgspec.Struct, eq=False, gc=False):
    """An operation's content in its trace. The trace does not refer to it, which avoids a cycle."""

    content: _Content
    trace: _TraceContent
    failed: bool = False

    def derive(self, field: str) -> Fields:
        found = self.content.found()
        self.failed = self.content.failed
        if field in _AVAILABILITY:
            # Marking again changes nothing, so two threads that both see it undone need no lock.
            if not self.trace.marked:
                mark_truncated([(c.span.attributes, c.found()) for c in self.trace.contents])
                self.trace.marked = True
            return {name: ReadOnlyDict(found[name]) for name in _AVAILABILITY}
        rest = dict(found)
        for name in _AVAILABILITY:
            rest.pop(name, None)
        return rest


_NOTHING_FOUND = {f.name: f.default for f in fields(Operation) if f.name in CONTENT}
