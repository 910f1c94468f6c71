"""The content of a trace's operations, and which of it an attribute length limit has truncated.

Truncated JSON can be recognised, a truncated text cannot. But the limit is the same for all attributes: if
some JSON breaks off at the greatest length in the trace, a text of that length was truncated too. So the
availability of one operation's content depends on that of all others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import msgspec

from otel_evals._internal.model import Availability, Operation, Source, SpanRecord
from otel_evals._internal.model.derived import DERIVATION, Derivation
from otel_evals._internal.model.operations import CONTENT
from otel_evals._internal.util.error_log import tell

_logger = logging.getLogger(__name__)
_AVAILABILITY: Final = ("availability", "sources")
_MOST_TOLD: Final = 20
_told: set[str] = set()
"""Instrumentation scopes whose spans could not be read, as far as that was logged as a warning."""


def defer_content(operations: Iterable[Operation]) -> None:
    """Have the content of a trace's operations read when it is first used; dialects have just made them."""
    contents: list[_Content] = []
    trace = _TraceContent(contents)
    for operation in operations:
        values = operation.__dict__
        derivation, found = values.get(DERIVATION), None
        if derivation is None:
            found = {name: getattr(operation, name) for name in _AVAILABILITY}
        content = _Content(operation.span, derivation, found)
        contents.append(content)
        values.pop("availability", None)
        values.pop("sources", None)
        values[DERIVATION] = _ContentOfTrace(content, trace)


class _TraceContent(msgspec.Struct, eq=False):
    """The content of a trace's operations."""

    contents: list[_Content]
    marked: bool = False


class _Content(msgspec.Struct, eq=False):
    """The content of one span, without a reference to its operation: neither keeps the other alive."""

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
            return derivation.derive("availability")
        except BaseException as error:  # a third-party dialect must not fail whoever asks
            told = self.span.scope_name in _told or len(_told) >= _MOST_TOLD
            level = logging.DEBUG if told else logging.WARNING
            _told.add(self.span.scope_name)
            message = "what span %s says could not be read"
            tell(_logger, message, self.span.span_id, error=error, level=level)
            self.failed = True
            return dict(_NOTHING_FOUND, availability={}, sources={})

    @property
    def availability(self) -> dict[str, Availability]:
        """By field; for marks."""
        states: dict[str, Availability] = self.found()["availability"]
        return states

    @property
    def sources(self) -> Mapping[str, Source]:
        """By field."""
        sources: Mapping[str, Source] = self.found()["sources"]
        return sources


class _ContentOfTrace(msgspec.Struct, eq=False):
    """An operation's content as part of its trace's; the trace does not refer to it, so there is no cycle."""

    content: _Content
    trace: _TraceContent
    failed: bool = False

    def derive(self, field: str) -> Mapping[str, Any]:
        found = self.content.found()
        self.failed = self.content.failed
        if field in _AVAILABILITY:
            if not self.trace.marked:
                _mark_truncated(self.trace.contents)
                self.trace.marked = True
            return {"availability": found["availability"], "sources": found["sources"]}
        rest = dict(found)
        del rest["availability"], rest["sources"]
        return rest


_NOTHING_FOUND = {f.name: f.default for f in fields(Operation) if f.name in CONTENT}


def _mark_truncated(contents: Sequence[_Content]) -> None:
    cut_off = [c for c in contents if Availability.TRUNCATED in c.availability.values()]
    limit = max((n for c in cut_off for n in _cut_lengths(c)), default=0)
    if not limit or any(
        len(v) > limit for c in contents for v in c.span.attributes.values() if isinstance(v, str)
    ):
        return
    for content in contents:
        for field, source in content.sources.items():
            value = content.span.attributes.get(source.key)
            if isinstance(value, str) and len(value) == limit:
                content.availability[field] = Availability.TRUNCATED


def _cut_lengths(content: _Content) -> list[int]:
    keys = [
        content.sources[field].key
        for field, state in content.availability.items()
        if state is Availability.TRUNCATED and field in content.sources
    ]
    values = [content.span.attributes.get(key) for key in keys]
    return [len(value) for value in values if isinstance(value, str)]
