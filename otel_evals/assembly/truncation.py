"""Detects texts that an attribute length limit has truncated, by comparison with others of the trace."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from typing import cast

from otel_evals.model import Availability, Operation

__all__ = ["mark_truncated"]


def mark_truncated(operations: Sequence[Operation]) -> None:
    """Mark fields as truncated whose attribute is exactly as long as one that was certainly truncated.

    Truncated JSON can be recognised, a truncated text cannot. But the limit is the same for all attributes:
    if some JSON breaks off at the greatest length in the trace, a text of that length was truncated too.
    """
    cut_off = [o for o in operations if Availability.TRUNCATED in o.availability.values()]
    limit = max(_cut_lengths(cut_off), default=0) if cut_off else 0
    if not limit or any(
        len(v) > limit for o in operations for v in o.span.attributes.values() if isinstance(v, str)
    ):
        return
    for operation in operations:
        for field, source in operation.sources.items():
            value = operation.span.attributes.get(source.key)
            if isinstance(value, str) and len(value) == limit:
                states = cast("MutableMapping[str, Availability]", operation.availability)
                states[field] = Availability.TRUNCATED


def _cut_lengths(operations: Iterable[Operation]) -> Iterable[int]:
    for operation in operations:
        for field, state in operation.availability.items():
            if state is Availability.TRUNCATED and field in operation.sources:
                value = operation.span.attributes.get(operation.sources[field].key)
                if isinstance(value, str):
                    yield len(value)
