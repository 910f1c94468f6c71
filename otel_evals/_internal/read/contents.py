"""Reads the operations of a trace: their content on demand, and choices where they belong.

The availability of one operation's content depends on all others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import itemgetter
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from otel_evals._internal.model import Availability, Operation, SpanRecord
from otel_evals._internal.model.convention import Conventions
from otel_evals._internal.model.operations import CONTENT
from otel_evals._internal.model.records import DERIVATION, Derivation, ReadOnlyDict, read_only
from otel_evals._internal.util.error_log import log_error

_logger = logging.getLogger(__name__)
_MOST_LOGGED: Final = 20

_AVAILABILITY: Final = ("availability", "sources")


_logged: set[str] = set()
"""Instrumentation scopes with unreadable spans that were logged as a warning."""


def read_operations(
    records: Iterable[SpanRecord], conventions: Conventions
) -> list[tuple[int, int, str, Operation]]:
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
    truncated too. So the availability of one operation's content depends on all others.
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
    known: Mapping[str, Any] | None
    failed: bool = False

    def found(self) -> Mapping[str, Any]:
        """Return the fields that were left to be read."""
        if self.known is None and self.derivation is not None:
            found = self._read(self.derivation)
            if self.known is None:  # another thread may have been first; both found the same
                self.known = found
        return self.known or {}

    def _read(self, derivation: Derivation) -> Mapping[str, Any]:
        try:
            found = derivation.derive("availability")
            return {**found, "tool_definitions": read_only(found.get("tool_definitions", ()))}
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

    def derive(self, field: str) -> Mapping[str, Any]:
        found = self.content.found()
        self.failed = self.content.failed
        if field in _AVAILABILITY:
            # Marking again changes nothing, so two threads that both see it undone need no lock.
            if not self.trace.marked:
                _mark_truncated(self.trace.contents)
                self.trace.marked = True
            return {name: ReadOnlyDict(found[name]) for name in _AVAILABILITY}
        rest = dict(found)
        for name in _AVAILABILITY:
            rest.pop(name, None)
        return rest


_NOTHING_FOUND = {f.name: f.default for f in fields(Operation) if f.name in CONTENT}


def _mark_truncated(contents: Sequence[_Content]) -> None:
    cut_off = [c for c in contents if Availability.TRUNCATED in c.found()["availability"].values()]
    limit = max((n for c in cut_off for n in _cut_lengths(c)), default=0)
    # A longer value shows that no limit for all attributes cut the JSON.
    if not limit or any(
        len(v) > limit for c in contents for v in c.span.attributes.values() if isinstance(v, str)
    ):
        return
    for content in contents:
        for field, source in content.found()["sources"].items():
            value = content.span.attributes.get(source.key)
            if isinstance(value, str) and len(value) == limit:
                content.found()["availability"][field] = Availability.TRUNCATED


def _cut_lengths(content: _Content) -> list[int]:
    availability, sources = (content.found()[name] for name in _AVAILABILITY)
    cut_off = [field for field, state in availability.items() if state is Availability.TRUNCATED]
    keys = [sources[field].key for field in cut_off if field in sources]
    values = [content.span.attributes.get(key) for key in keys]
    return [len(value) for value in values if isinstance(value, str)]


_CHOICE: Final = "gen_ai.choice"
_DETAILS: Final = "gen_ai.client.inference.operation.details"


def restore_choices(records: Mapping[str, SpanRecord], conventions: Conventions) -> Mapping[str, SpanRecord]:
    """Move `gen_ai.choice` log records from a parent span to its model calls, in order.

    Instrumentations that log the choice of a streamed call after its span has ended log it on the parent.
    """
    restored: dict[str, SpanRecord] = {}
    for record in records.values():
        if not record.logs or conventions.choose(record.scope_name, record.attributes) is not None:
            continue
        choices = [log for log in record.logs if log.name == _CHOICE]
        if choices:
            calls = sorted(
                _without_choice(record.span_id, records, conventions), key=lambda r: r.end_time or 0
            )
            # If the numbers differ, nothing says which call a choice belongs to.
            if len(calls) == len(choices):
                restored.update(
                    (c.span_id, replace(c, logs=(*c.logs, log)))
                    for c, log in zip(calls, choices, strict=True)
                )
    return {**records, **restored}


def _without_choice(
    parent: str, records: Mapping[str, SpanRecord], conventions: Conventions
) -> Iterable[SpanRecord]:
    for record in records.values():
        has_choice = any(log.name == _CHOICE for log in record.logs)
        if record.parent_span_id != parent or record.status == "ERROR" or has_choice:
            continue
        if conventions.choose(record.scope_name, record.attributes) is not None:
            yield record


def with_details(records: Iterable[SpanRecord]) -> Iterator[SpanRecord]:
    """Yield the spans with an event for a whole model call, with the event's attributes as their own."""
    for record in records:
        added: dict[str, Any] = {}
        for event in (*record.events, *record.logs):
            if _DETAILS in (event.name, event.attributes.get("event.name")):
                added.update(event.attributes)
                if isinstance(event.body, dict):
                    added.update(event.body)
        if added:
            # Another instrumentation recorded the event: the span's scope does not apply.
            yield replace(record, scope_name="", attributes={**added, **record.attributes})
