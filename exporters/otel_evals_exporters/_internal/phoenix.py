"""Reads traces and annotations from Arize Phoenix, which stores neither resource nor scope of a span."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from otel_evals.destinations import HttpClient
from otel_evals.errors import DestinationError
from otel_evals.model import Feedback, SpanRecord
from otel_evals.sources import LARGEST_ANSWER, FeedbackQuery, TraceQuery, ask, moment, paged, readable
from otel_evals_exporters._internal.span_records import by_trace, camel, spans_of

_TRACES = 25  # ids are part of the URL
_SPANS = 500
_ANNOTATIONS = 1_000
_ANNOTATED = 100  # ids are part of the URL
_FLATTENED = ("metadata.", "tool.parameters.", "llm.prompt_template.variables.")


async def phoenix_feedback(http: HttpClient, query: FeedbackQuery) -> AsyncIterator[Feedback | None]:
    """Yield the annotations of the spans and traces of recorded runs.

    PHOENIX_PROJECT_NAME limits the search to one project.
    """
    of_traces = {span: trace for trace, span in query.judged}
    for project in await _projects(http, os.environ.get("PHOENIX_PROJECT_NAME")):
        for kind, ids in (("span", list(of_traces)), ("trace", list(dict.fromkeys(of_traces.values())))):
            for start in range(0, len(ids), _ANNOTATED):
                asked = {f"{kind}_ids": ids[start : start + _ANNOTATED], "limit": _ANNOTATIONS}
                async for item in _items(http, f"/v1/projects/{project}/{kind}_annotations", asked):
                    yield readable(item, partial(_feedback, of_traces))


async def phoenix_traces(http: HttpClient, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
    """Yield the traces of a project (from the filter or PHOENIX_PROJECT_NAME), or of all by default.

    The filter is `project=NAME`, and parameters of Phoenix's list of traces, such as `session_identifier`.
    """
    words = query.words()
    name = words.pop("project", None) or os.environ.get("PHOENIX_PROJECT_NAME")
    for project in await _projects(http, name):
        path = f"/v1/projects/{project}"
        asked = {"start_time": query.since_text, "end_time": query.until_text, "limit": _TRACES, **words}
        ids: list[str] = []
        async for trace in _items(http, f"{path}/traces", asked, most=LARGEST_ANSWER):
            ids.append(str(trace["trace_id"]))
            if len(ids) == _TRACES:
                for spans in await _spans(http, path, ids):
                    yield spans
                ids = []
        for spans in await _spans(http, path, ids):
            yield spans


async def _projects(http: HttpClient, name: str | None) -> list[str]:
    if name:
        return [quote(name, safe="")]
    return [str(each["id"]) async for each in _items(http, "/v1/projects", {})]


async def _spans(http: HttpClient, path: str, ids: Sequence[str]) -> list[list[SpanRecord]]:
    if not ids:
        return []
    asked = {"trace_id": list(ids), "limit": _SPANS}
    listed = _items(http, f"{path}/spans/otlpv1", asked, most=LARGEST_ANSWER)
    found = [camel(span) async for span in listed]
    request = {"resourceSpans": [{"scopeSpans": [{"spans": found}]}]}
    return list(by_trace(map(_as_sent, spans_of(request))).values())


def _items(http: HttpClient, path: str, asked: Mapping[str, Any], **bound: int) -> AsyncIterator[Any]:
    async def page(cursor: str | None) -> tuple[Sequence[Any], Any]:
        params = {**asked, **({"cursor": cursor} if cursor else {})}
        try:
            found = await ask(http, "GET", path, params=params, **bound)
        except DestinationError as error:
            if error.status != 404 or not path.endswith("_annotations"):
                raise
            return (), None  # the project has none of these spans
        return found["data"], found.get("next_cursor")

    return paged(page)


def _as_sent(span: SpanRecord) -> SpanRecord:
    """Turn the attributes that Phoenix flattens back into the JSON that was sent."""
    attributes: dict[str, Any] = {}
    for key, value in span.attributes.items():
        prefix = next((each for each in _FLATTENED if key.startswith(each)), None)
        if prefix is None:
            attributes[key] = value
        else:
            attributes.setdefault(prefix[:-1], {})[key.removeprefix(prefix)] = value
    for prefix in _FLATTENED:
        if isinstance(attributes.get(prefix[:-1]), dict):
            attributes[prefix[:-1]] = json.dumps(attributes[prefix[:-1]], ensure_ascii=False, default=str)
    return replace(span, attributes=attributes)


def _feedback(of_traces: dict[str, str], item: dict[str, Any]) -> Feedback:
    result, span = item["result"], item.get("span_id")
    return Feedback(
        name=item["name"],
        value=result.get("label") if result.get("score") is None else result["score"],
        by="person" if item["annotator_kind"] == "HUMAN" else "judge",
        author=item.get("user_id") or item.get("identifier") or "",
        time=moment(item.get("updated_at") or item["created_at"]),
        trace_id=item["trace_id"] if span is None else of_traces.get(span),
        span_id=span,
        comment=result.get("explanation"),
    )
