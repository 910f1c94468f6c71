"""Span records from a backend's JSON, and searches split by time range."""

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
    """Return the spans of OTLP/JSON, with nested attributes as JSON text, like OpenTelemetry's SDKs."""
    return [_with_json_text(record) for record in records_of(request) if isinstance(record, SpanRecord)]


def by_trace(spans: Iterable[SpanRecord]) -> list[list[SpanRecord]]:
    """Return the spans of each trace, each once."""
    traces: dict[str, dict[str, SpanRecord]] = {}
    for span in spans:
        traces.setdefault(span.trace_id, {}).setdefault(span.span_id, span)
    return [list(found.values()) for found in traces.values()]


def spans_in(stored: Any) -> list[SpanRecord]:
    """Return the spans in a list of JSON with the names of protobuf."""
    return spans_of({"resourceSpans": [{"scopeSpans": [{"spans": _camel(stored)}]}]})


def _camel(node: Any) -> Any:
    """Rename protobuf fields in JSON to the names of OTLP/JSON."""
    if isinstance(node, list):
        return [_camel(each) for each in node]
    if not isinstance(node, Mapping):
        return node
    return {_UNDERSCORE.sub(lambda m: m[1].upper(), k): _camel(v) for k, v in node.items() if v is not None}


async def in_parts(
    since: int,
    until: int,
    shortest: int,
    find: Callable[[int, int], Awaitable[Sequence[Any] | None]],
) -> AsyncIterator[Any]:
    """Yield the results of a search with a limit on results, halving the time range until they fit.

    Times are in nanoseconds since the Unix epoch. `find` returns None if a part has too many results; a part
    of the `shortest` length then raises DestinationError.
    """
    parts = [(since, until)]
    while parts:
        start, end = parts.pop()
        found = await find(start, end)
        if found is not None:
            for each in found:
                yield each
        elif end - start <= shortest:
            problem = f"there are more traces within {shortest / 1e9:g} s than it returns; use --filter"
            raise DestinationError(problem, retryable=False, reason="unexpected_answer")
        else:
            middle = start + max(shortest, (end - start) // 2 // shortest * shortest)
            # The earlier half is popped first, so traces come in order.
            parts += [(middle, end), (start, middle)]


def _with_json_text(span: SpanRecord) -> SpanRecord:
    texts = {
        key: json.dumps(value, ensure_ascii=False, default=str)
        for key, value in span.attributes.items()
        if _is_nested(value)
    }
    return replace(span, attributes={**span.attributes, **texts}) if texts else span


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, tuple) and any(isinstance(each, Mapping | tuple) for each in value)
    )
