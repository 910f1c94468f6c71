"""Approximate sizes in memory, for bounds in bytes."""

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
_SIMPLE: Final = frozenset((str, int, float, bool, type(None)))
"""Types of most attributes: `getsizeof` measures all of them."""
SIZE: Final = "_size"
"""The key in a run's `__dict__` under which its size is cached."""


def size_of_span(span: SpanRecord) -> int:
    """Return the bytes of a span with its events and log records, without the resource that spans share."""
    size = _SPAN + len(span.name) + len(span.status_message) + len(span.trace_state)
    size += size_of_attributes(span.attributes)
    if span.events or span.logs:
        size += sum(map(size_of_event, span.events)) + sum(map(size_of_event, span.logs))
    return size + _OTHER * len(span.links)


def size_of_attributes(attributes: Mapping[str, Any]) -> int:
    """Return the bytes of keys and values. Runs for every span, so its loops are in C."""
    size, values = _ENTRY * len(attributes) + sum(map(len, attributes)), attributes.values()
    if _SIMPLE.issuperset(map(type, values)):
        return size + sum(map(getsizeof, values))
    return size + sum(map(size_of_value, values))


def size_of_event(event: SpanEvent) -> int:
    """Return the bytes of an event or a log record."""
    return _EVENT + len(event.name) + size_of_value(event.body) + size_of_attributes(event.attributes)


def size_of_run(run: Run) -> int:
    """Return the bytes of a run's spans; the fields derived from them may take as much again."""
    known: int | None = run.__dict__.get(SIZE)
    if known is None:
        known = run.__dict__[SIZE] = sum([size_of_span(o.span) for o in run.operations])
    return known


def size_of_value(value: Any) -> int:
    """Return the bytes of a value and everything in it; it may contain itself."""
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
