"""Traces from Langfuse. It keeps a span's attributes as metadata, and takes what was said out of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import HttpClient
from otel_evals.errors import DestinationError
from otel_evals.model import SpanRecord
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask, moment, paged
from otel_evals_exporters._internal.traces.span_records import by_trace

_PAGE = 100
_NEWEST, _OLDER = "/api/public/v2/observations", "/api/public/observations"
_ALL = {
    "fields": "core,basic,time,io,metadata,model,usage",
    "expandMetadata": "attributes,resourceAttributes,scope",
}


async def langfuse_traces(http: HttpClient, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
    """The traces with an observation that began in the range, and that the filter finds.

    The filter is parameters of Langfuse's list of observations: `environment=production userId=u-1`.
    """
    seen: set[str] = set()
    asked = {"fromStartTime": query.since_text, "toStartTime": query.until_text, **query.words()}
    newest = True
    try:
        await ask(http, "GET", _NEWEST, params={**asked, "limit": 1, "fields": "core"})
    except DestinationError as error:
        if error.status != 404:
            raise
        newest = False
    async for each in _observations(http, newest, {**asked, "fields": "core,basic"} if newest else asked):
        trace_id = str(each["traceId"])
        if trace_id in seen:
            continue
        seen.add(trace_id)
        of_trace = {"traceId": trace_id, **(_ALL if newest else {})}
        spans = [_span(found) async for found in _observations(http, newest, of_trace)]
        for trace in by_trace(spans).values():
            yield trace


async def _observations(http: HttpClient, newest: bool, asked: Mapping[str, Any]) -> AsyncIterator[Any]:
    async def by_cursor(cursor: str | None) -> tuple[Sequence[Any], Any]:
        params = {**asked, "limit": _PAGE, **({"cursor": cursor} if cursor else {})}
        found = await ask(http, "GET", _NEWEST, params=params, most=LARGEST_ANSWER)
        return found["data"], found["meta"].get("cursor")

    async def by_number(page: int) -> tuple[Sequence[Any], Any]:
        params = {**asked, "limit": _PAGE, "page": page}
        found = await ask(http, "GET", _OLDER, params=params, most=LARGEST_ANSWER)
        return found["data"], page + 1 if page < int(found["meta"]["totalPages"]) else None

    async for each in paged(by_cursor) if newest else paged(by_number, 1):
        yield each


def _span(found: Mapping[str, Any]) -> SpanRecord:
    metadata = _mapping(found.get("metadata"))
    scope = _mapping(metadata.get("scope"))
    end = found.get("endTime")
    return SpanRecord(
        trace_id=str(found["traceId"]),
        span_id=str(found["id"]),
        parent_span_id=found.get("parentObservationId") or None,
        name=str(found.get("name") or ""),
        start_time=moment(found["startTime"]),
        end_time=moment(end) if end else None,
        attributes=_attributes(found, _mapping(metadata.get("attributes"))),
        status="ERROR" if found.get("level") == "ERROR" else "UNSET",
        status_message=str(found.get("statusMessage") or ""),
        scope_name=str(scope.get("name") or ""),
        scope_version=str(scope.get("version") or ""),
        resource=_mapping(metadata.get("resourceAttributes")),
    )


def _attributes(found: Mapping[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
    """The span's own, and what Langfuse keeps beside them under the names of its SDK."""
    told = {
        "type": str(found.get("type") or "span").lower(),
        "input": found.get("input"),
        "output": found.get("output"),
        "level": found.get("level"),
        "status_message": found.get("statusMessage"),
        "model.name": found.get("model") or found.get("providedModelName"),
        "usage_details": found.get("usageDetails"),
    }
    own = {f"langfuse.observation.{name}": _text(value) for name, value in told.items() if value}
    return {**own, **attributes}


def _mapping(value: Any) -> dict[str, Any]:
    """A mapping, or the JSON of one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    return dict(value) if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
