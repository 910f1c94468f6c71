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

from otel_evals._internal.model import Availability, Operation, Source, SpanRecord
from otel_evals._internal.model.derived import DERIVATION, Derivation
from otel_evals._internal.model.operations import CONTENT
from otel_evals._internal.util.error_log import tell

_logger = logging.getLogger(__name__)
_AVAILABILITY: Final = ("availability", "sources")
_MOST_TOLD: Final = 20
_told: set[str] = set()
"""Instrumentation scopes whose spans could not be read, as far as that was logged as a warning."""


class TraceContent:
    """Takes over the content of a trace's operations, each of which is read when it is asked for.

    Args:
        operations: all of the trace's, as dialects have just made them.
    """

    __slots__ = ("_contents", "_marked")

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._contents: list[_Content] = []
        self._marked = False
        for operation in operations:
            self._hold(operation)

    def _hold(self, operation: Operation) -> None:
        values = operation.__dict__
        content = _Content(operation, values.get(DERIVATION))
        self._contents.append(content)
        for name in _AVAILABILITY:
            values.pop(name, None)
        values[DERIVATION] = _ContentOfTrace(content, self)

    def mark_truncated(self) -> None:
        """Mark fields as truncated whose attribute is exactly as long as one that was certainly truncated."""
        if not self._marked:
            _mark_truncated(self._contents)
            self._marked = True


class _Content:
    """What one operation's dialect finds in its span. Not tied to the operation: neither keeps the other."""

    __slots__ = ("_derivation", "_found", "failed", "span")

    def __init__(self, operation: Operation, derivation: Derivation | None) -> None:
        self.span: SpanRecord = operation.span
        self.failed = False
        self._derivation = derivation
        self._found: Mapping[str, Any] | None = None
        if derivation is None:
            self._found = {name: getattr(operation, name) for name in _AVAILABILITY}

    def found(self) -> Mapping[str, Any]:
        """The fields that were left to be read."""
        if self._found is None and self._derivation is not None:
            found = self._read(self._derivation)
            if self._found is None:  # another thread may have been first; both found the same
                self._found = found
        return self._found or {}

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


class _ContentOfTrace:
    """An operation's content, as part of its trace's."""

    __slots__ = ("_content", "_trace", "failed")

    def __init__(self, content: _Content, trace: TraceContent) -> None:
        self._content = content
        self._trace = trace
        self.failed = False

    def derive(self, field: str) -> Mapping[str, Any]:
        found = self._content.found()
        self.failed = self._content.failed
        if field in _AVAILABILITY:
            self._trace.mark_truncated()
            return {name: found[name] for name in _AVAILABILITY}
        return {name: value for name, value in found.items() if name not in _AVAILABILITY}


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
