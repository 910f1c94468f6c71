"""What the sources of stored traces share: from a backend's JSON to spans, and ranges of time in parts."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from otel_evals.errors import DestinationError
from otel_evals.model import SpanRecord
from otel_evals.sources import records_of

_UNDERSCORE = re.compile("_([a-z])")


def spans_of(request: Any) -> list[SpanRecord]:
    """The spans of OTLP/JSON. Attributes that OpenTelemetry's SDKs write as JSON are JSON again."""
    return [_plain(record) for record in records_of(request) if isinstance(record, SpanRecord)]


def by_trace(spans: Iterable[SpanRecord]) -> dict[str, list[SpanRecord]]:
    """Spans by their trace's id, each once."""
    traces: dict[str, dict[str, SpanRecord]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, {}).setdefault(span.span_id, span)
    return {trace_id: list(found.values()) for trace_id, found in traces.items()}


def camel(node: Any) -> Any:
    """OTLP in JSON with the names of its protobuf fields, as that with the names of OTLP/JSON."""
    if isinstance(node, list):
        return [camel(each) for each in node]
    if not isinstance(node, Mapping):
        return node
    return {_UNDERSCORE.sub(lambda m: m[1].upper(), k): camel(v) for k, v in node.items() if v is not None}


async def in_parts(
    since: int,
    until: int,
    shortest: int,
    find: Callable[[int, int], Awaitable[Sequence[Any] | None]],
) -> AsyncIterator[Any]:
    """What is found in a range of time, by a search that gives only so much at a time.

    Args:
        since: its begin, in nanoseconds since the Unix epoch.
        until: its end.
        shortest: a part of this length is not halved.
        find: what is in a part; None if that is too much.

    Raises:
        DestinationError: there is too much in the shortest part.
    """
    parts = [(since, until)]
    while parts:
        start, end = parts.pop()
        found = await find(start, end)
        if found is not None:
            for each in found:
                yield each
        elif end - start <= shortest:
            problem = f"there are more traces within {shortest / 1e9:g} s than it gives; use --filter"
            raise DestinationError(problem, retryable=False, reason="unexpected_answer")
        else:
            middle = start + max(shortest, (end - start) // 2 // shortest * shortest)
            parts += [(middle, end), (start, middle)]


def _plain(span: SpanRecord) -> SpanRecord:
    nested = {key: value for key, value in span.attributes.items() if _is_nested(value)}
    if not nested:
        return span
    texts = {key: json.dumps(value, ensure_ascii=False, default=str) for key, value in nested.items()}
    return replace(span, attributes={**span.attributes, **texts})


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, tuple) and any(isinstance(each, Mapping | tuple) for each in value)
    )
