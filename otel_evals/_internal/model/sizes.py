"""Approximate sizes in memory of what is held, for bounds in bytes."""

from __future__ import annotations

from collections.abc import Mapping
from sys import getsizeof
from typing import Any, Final

from otel_evals._internal.model.runs import Run
from otel_evals._internal.model.spans import SpanEvent, SpanRecord

_SPAN: Final = 500
_EVENT: Final = 200
_ENTRY: Final = 16
"""Bytes of a place in a container."""
_OTHER: Final = 100
_CACHED: Final = "_size"


def size_of_span(span: SpanRecord) -> int:
    """Bytes of a span with its events and log records; what spans share, such as a resource, is left out."""
    size = _SPAN + len(span.name) + len(span.status_message) + len(span.trace_state)
    size += _size_of_attributes(span.attributes)
    if span.events or span.logs:
        size += sum(map(size_of_event, span.events)) + sum(map(size_of_event, span.logs))
    return size + _OTHER * len(span.links)


def size_of_event(event: SpanEvent) -> int:
    """Bytes of a span event or log record."""
    return _EVENT + len(event.name) + _size_of_attributes(event.attributes) + size_of_value(event.body)


def size_of_run(run: Run) -> int:
    """Bytes of a run's spans; what is read from them when it is asked for may take as much again."""
    known: int | None = run.__dict__.get(_CACHED)
    if known is None:
        known = run.__dict__[_CACHED] = sum(size_of_span(o.span) for o in run.operations)
    return known


def size_of_value(value: Any) -> int:
    """Bytes of a value and all that is in it, which may be itself."""
    size = 0
    seen: set[int] = set()
    left = [value]
    while left:
        each = left.pop()
        kind = type(each)
        if kind is str or kind is bytes or kind is int or kind is bytearray:
            size += getsizeof(each)
            continue
        size += _OTHER
        if id(each) in seen or not issubclass(kind, (list, tuple, set, frozenset, Mapping)):
            continue
        seen.add(id(each))
        size += _ENTRY * len(each)
        left.extend(each)
        if issubclass(kind, Mapping):
            left.extend(each.values())
    return size


def _size_of_attributes(attributes: Mapping[str, Any]) -> int:
    size = 0
    for key, value in attributes.items():
        if type(value) is str:  # most are, and this is done for every span
            size += getsizeof(value)
        elif value is not None:
            size += size_of_value(value)
        size += _ENTRY + len(key)
    return size
