"""Captured items on their way to the engine's process.

They go as rows of plain values, which marshal writes many times faster than pickle writes objects.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from otel_evals._internal.capture.items import CapturedItem, CapturedLog, RecordedSpan
from otel_evals._internal.live.engine_process.complete_roots import CompleteRoots
from otel_evals._internal.model.rows import event_of, event_row, span_of, span_rows

__all__ = ["decode", "encode", "encode_each"]

_NO_ROOTS = CompleteRoots()


def encode(items: Sequence[CapturedItem], roots: CompleteRoots = _NO_ROOTS) -> bytes:
    """Items as bytes, and what is told of roots among them; on the sending thread, not the application's."""
    captured = [item for item in items if not isinstance(item, CapturedLog)]
    rows, resources = span_rows(item.record() for item in captured)
    spans = iter([(item.owner, row) for item, row in zip(captured, rows, strict=True)])
    told = roots.span_ids, roots.waiting
    in_order = [_log_row(item) if isinstance(item, CapturedLog) else next(spans) for item in items]
    try:
        return marshal.dumps((told, resources, in_order))
    except ValueError:  # a subclass of str, as enumerations are, or a value that should not be there
        return marshal.dumps(_simple((told, resources, in_order)))


def encode_each(
    items: Sequence[CapturedItem], roots: CompleteRoots, lose: Callable[[CapturedItem, Exception], object]
) -> Iterator[tuple[int, bytes]]:
    """Items as bytes, with their number; in halves, where something cannot be encoded, until that is alone.

    Args:
        items: at least one.
        roots: what is told of them; of halves, nothing is.
        lose: called with an item that cannot be encoded.
    """
    try:
        yield len(items), encode(items, roots)
    except Exception as error:
        if len(items) == 1:
            lose(items[0], error)
            return
        middle = len(items) // 2
        yield from encode_each(items[:middle], _NO_ROOTS, lose)
        yield from encode_each(items[middle:], _NO_ROOTS, lose)


def decode(data: bytes) -> tuple[CompleteRoots, Iterator[CapturedItem]]:
    """What was told, and the items again."""
    told, resources, in_order = marshal.loads(data)
    return CompleteRoots(*told), _items(resources, in_order)


def _items(resources: Sequence[Any], in_order: Sequence[Any]) -> Iterator[CapturedItem]:
    for row in in_order:
        if len(row) == 2:
            owner, span = row
            yield RecordedSpan(span_of(span, resources), owner)
        else:
            trace_id, span_id, event = row
            yield CapturedLog(trace_id, span_id, event_of(event))


def _log_row(item: CapturedLog) -> tuple[Any, ...]:
    return item.trace_id, item.span_id, event_row(item.event)


def _simple(value: Any) -> Any:
    """The value, of the types that marshal knows."""
    if value is None or type(value) in (bool, int, float, str, bytes):
        return value
    if isinstance(value, Mapping):
        return {_simple(k): _simple(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return (
            type(value)(map(_simple, value)) if type(value) in (list, tuple) else tuple(map(_simple, value))
        )
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return repr(value)
