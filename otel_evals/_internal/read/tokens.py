"""The tokens that a run used, each model call counted once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from otel_evals._internal.model import Operation, OperationKind, Usage
from otel_evals._internal.read.tree import is_during

_NO_USAGE = Usage()
_RECENT = 8
"""Compare a model call with this many earlier ones, to count it once."""
APART: Final = tuple(k for k in OperationKind if k not in (OperationKind.INFERENCE, OperationKind.OTHER))
"""Kinds of operations whose tokens a model call above does not include."""


def tokens_used(operations: Sequence[Operation], above: Mapping[str, str | None]) -> Usage:
    """Add the tokens of the innermost operations with any; operations above them have sums of these.

    A model call does not include the tokens of a tool or an agent below it.
    """
    counting = [o for o in operations if o.usage is not None and o.usage.total_tokens]
    if len(counting) < 2:
        return counting[0].usage or _NO_USAGE if counting else _NO_USAGE
    kinds = {o.span_id: o.kind for o in operations}
    covered: set[str] = set()
    for operation in counting:
        below, span_id = operation.kind, above.get(operation.span_id)
        while span_id in kinds and span_id not in covered:
            if not (kinds[span_id] is OperationKind.INFERENCE and below in APART):
                covered.add(span_id)
            below, span_id = kinds[span_id], above.get(span_id)
    counted = set()
    added: list[Operation] = []
    for operation in counting:
        if operation.span_id in covered or operation.response_id in counted:
            continue
        twin = next((known for known in added[-_RECENT:] if _is_same_call(known, operation)), None)
        if twin is None:
            added.append(operation)
        elif _tokens(operation) > _tokens(twin):
            added[added.index(twin)] = operation  # with cached tokens
        counted.add(operation.response_id or operation.span_id)
    if len(added) == 1 and covered:
        return _whole(added[0], (o for o in counting if o.span_id in covered), operations)
    return sum((o.usage or _NO_USAGE for o in added), _NO_USAGE)


def _tokens(operation: Operation) -> int:
    return operation.usage.total_tokens if operation.usage is not None else 0


def _whole(call: Operation, sums: Iterable[Operation], operations: Sequence[Operation]) -> Usage:
    """Return the usage of a run's only model call; or the sum above it, if tools ran during the call.

    Such a span has several requests, and some libraries record the tokens of the last one.
    """
    last = call.usage or _NO_USAGE
    most = max((o.usage or last for o in sums), key=attrgetter("total_tokens"), default=last)
    if most.total_tokens <= last.total_tokens:
        return last
    is_loop = any(o.kind is OperationKind.TOOL and is_during(o.span, call.span) for o in operations)
    return most if is_loop else last


def _is_same_call(known: Operation, operation: Operation) -> bool:
    """Return True if an SDK and a library recorded the same model call, in two spans."""
    one, other = known.span, operation.span
    if one.scope_name == other.scope_name or one.parent_span_id != other.parent_span_id:
        return False
    if known.kind is not operation.kind or (known.response_id and operation.response_id):
        return False
    a, b = known.usage, operation.usage
    if a is None or b is None or not (is_during(one, other) or is_during(other, one)):
        return False
    cached = (0, a.cache_read_tokens + a.cache_write_tokens, b.cache_read_tokens + b.cache_write_tokens)
    return a.output_tokens == b.output_tokens and abs(a.input_tokens - b.input_tokens) in cached
