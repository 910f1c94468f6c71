"""Traces from Arize Phoenix, which keeps neither the resource nor the scope of a span."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from otel_evals.destinations import HttpClient
from otel_evals.model import SpanRecord
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask, paged
from otel_evals_exporters._internal.traces.span_records import by_trace, camel, spans_of

_TRACES = 25  # they stand in an address
_SPANS = 500
_TAKEN_APART = ("metadata.", "tool.parameters.", "llm.prompt_template.variables.")


async def phoenix_traces(http: HttpClient, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
    """The traces of a project: the one in the filter, in PHOENIX_PROJECT_NAME, or else of all.

    The filter is `project=NAME`, and parameters of Phoenix's list of traces, such as `session_identifier`.
    """
    words = query.words()
    name = words.pop("project", None) or os.environ.get("PHOENIX_PROJECT_NAME")
    for project in [quote(name, safe="")] if name else await _projects(http):
        path = f"/v1/projects/{project}"
        asked = {"start_time": query.since_text, "end_time": query.until_text, "limit": _TRACES, **words}
        ids: list[str] = []
        async for trace in paged(partial(_page, http, f"{path}/traces", asked)):
            ids.append(str(trace["trace_id"]))
            if len(ids) == _TRACES:
                for spans in await _spans(http, path, ids):
                    yield spans
                ids = []
        for spans in await _spans(http, path, ids):
            yield spans


async def _projects(http: HttpClient) -> list[str]:
    return [str(each["id"]) async for each in paged(partial(_page, http, "/v1/projects", {}))]


async def _spans(http: HttpClient, path: str, ids: Sequence[str]) -> list[list[SpanRecord]]:
    if not ids:
        return []
    page = partial(_page, http, f"{path}/spans/otlpv1", {"trace_id": list(ids), "limit": _SPANS})
    found = [camel(span) async for span in paged(page)]
    request = {"resourceSpans": [{"scopeSpans": [{"spans": found}]}]}
    return list(by_trace(map(_as_sent, spans_of(request))).values())


async def _page(
    http: HttpClient, path: str, of: Mapping[str, Any], cursor: str | None
) -> tuple[Sequence[Any], Any]:
    params = {**of, **({"cursor": cursor} if cursor else {})}
    found = await ask(http, "GET", path, params=params, most=LARGEST_ANSWER)
    return found["data"], found.get("next_cursor")


def _as_sent(span: SpanRecord) -> SpanRecord:
    """The attributes that Phoenix has taken apart, as the JSON that they were."""
    attributes: dict[str, Any] = {}
    for key, value in span.attributes.items():
        whole = next((each for each in _TAKEN_APART if key.startswith(each)), None)
        if whole is None:
            attributes[key] = value
        else:
            attributes.setdefault(whole[:-1], {})[key.removeprefix(whole)] = value
    for whole in _TAKEN_APART:
        if isinstance(attributes.get(whole[:-1]), dict):
            attributes[whole[:-1]] = json.dumps(attributes[whole[:-1]], ensure_ascii=False, default=str)
    return replace(span, attributes=attributes)
