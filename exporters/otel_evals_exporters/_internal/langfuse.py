"""Reads traces and scores from Langfuse, which stores a span's attributes and messages separately."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal

from otel_evals.destinations import HttpClient
from otel_evals.errors import DestinationError
from otel_evals.model import Feedback, SpanRecord
from otel_evals.sdk.util import read_json
from otel_evals.sources import LARGEST_ANSWER, FeedbackQuery, TraceQuery, ask, moment, paged, readable
from otel_evals_exporters._internal.span_records import by_trace

_PAGE = 100
_NEWEST, _OLDER = "/api/public/v2/observations", "/api/public/observations"
_ALL = {
    "fields": "core,basic,time,io,metadata,model,usage",
    "expandMetadata": "attributes,resourceAttributes,scope",
}
_BY: dict[str, Literal["person", "api"]] = {"ANNOTATION": "person", "API": "api"}


async def langfuse_feedback(http: HttpClient, query: FeedbackQuery) -> AsyncIterator[Feedback | None]:
    """Yield all scores since a time; older servers have the list of scores of the version before."""
    since = {"fromTimestamp": query.since_text}
    asked = {"fields": "details,subject,annotation", **since}
    asked |= {"name": ",".join(query.names)} if query.names else {}
    try:
        async for score in _by_cursor(http, "/api/public/v3/scores", asked):
            yield readable(score, _feedback)
    except DestinationError as error:
        if error.status != 404:
            raise
        async for score in _by_number(http, "/api/public/v2/scores", since):
            yield readable(score, _feedback)


async def langfuse_traces(http: HttpClient, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
    """Yield the traces with an observation that began in the range and matches the filter.

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


def _observations(http: HttpClient, newest: bool, asked: Mapping[str, Any]) -> AsyncIterator[Any]:
    path, pages = (_NEWEST, _by_cursor) if newest else (_OLDER, _by_number)
    return pages(http, path, asked, most=LARGEST_ANSWER)


def _by_cursor(http: HttpClient, path: str, asked: Mapping[str, Any], **bound: int) -> AsyncIterator[Any]:
    async def page(cursor: str | None) -> tuple[Sequence[Any], Any]:
        params = {**asked, "limit": _PAGE, **({"cursor": cursor} if cursor else {})}
        found = await ask(http, "GET", path, params=params, **bound)
        return found["data"], found["meta"].get("cursor")

    return paged(page)


def _by_number(http: HttpClient, path: str, asked: Mapping[str, Any], **bound: int) -> AsyncIterator[Any]:
    async def page(number: int) -> tuple[Sequence[Any], Any]:
        params = {**asked, "limit": _PAGE, "page": number}
        found = await ask(http, "GET", path, params=params, **bound)
        return found["data"], number + 1 if number < int(found["meta"]["totalPages"]) else None

    return paged(page, 1)


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
        attributes={**_observed(found), **_mapping(metadata.get("attributes"))},
        status="ERROR" if found.get("level") == "ERROR" else "UNSET",
        status_message=str(found.get("statusMessage") or ""),
        scope_name=str(scope.get("name") or ""),
        scope_version=str(scope.get("version") or ""),
        resource=_mapping(metadata.get("resourceAttributes")),
    )


def _observed(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that Langfuse stores apart from the attributes, as attributes of its SDK."""
    fields = {
        "type": str(found.get("type") or "span").lower(),
        "input": found.get("input"),
        "output": found.get("output"),
        "level": found.get("level"),
        "status_message": found.get("statusMessage"),
        "model.name": found.get("model") or found.get("providedModelName"),
        "usage_details": found.get("usageDetails"),
    }
    return {f"langfuse.observation.{name}": _text(value) for name, value in fields.items() if value}


def _mapping(value: Any) -> dict[str, Any]:
    """Return a mapping, also from its JSON; empty for anything else."""
    try:
        value = read_json(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    return dict(value) if isinstance(value, Mapping) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _feedback(score: dict[str, Any]) -> Feedback:
    subject = score.get("subject") or {}
    kind, id = subject.get("kind"), subject.get("id")
    ours = "evaluation_id" in (score.get("metadata") or {})
    value = bool(score.get("value")) if score.get("dataType") == "BOOLEAN" else score.get("value")
    # The older list has a number for categories too, next to their name.
    category = score.get("stringValue") if score.get("dataType") == "CATEGORICAL" else None
    return Feedback(
        name=score["name"],
        value=category or value,
        by="judge" if ours else _BY.get(score["source"], "judge"),
        author=score.get("authorUserId") or "",
        time=moment(score.get("updatedAt") or score["timestamp"]),
        trace_id=id if kind == "trace" else subject.get("traceId") or score.get("traceId"),
        span_id=id if kind == "observation" else score.get("observationId"),
        comment=score.get("comment"),
    )
