"""Annotations that people made in Phoenix."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from otel_evals.destinations import HttpClient
from otel_evals.errors import DestinationError
from otel_evals.model import Feedback
from otel_evals.sources import FeedbackQuery, ask, moment, paged, readable

_PAGE = 1_000
_SPANS = 100  # they stand in the address


async def phoenix_feedback(http: HttpClient, query: FeedbackQuery) -> AsyncIterator[Feedback | None]:
    """The annotations of the runs on record, of their spans and of their traces.

    They are looked for in the project of PHOENIX_PROJECT_NAME, or else in all.
    """
    of_traces = {span: trace for trace, span in query.judged}
    for project in await _projects(http):
        for kind, ids in (("span", list(of_traces)), ("trace", list(dict.fromkeys(of_traces.values())))):
            for start in range(0, len(ids), _SPANS):
                of = {f"{kind}_ids": ids[start : start + _SPANS]}
                page = partial(_page, http, f"/v1/projects/{project}/{kind}_annotations", of)
                async for item in paged(page):
                    yield readable(item, partial(_feedback, of_traces))


async def _projects(http: HttpClient) -> list[str]:
    if name := os.environ.get("PHOENIX_PROJECT_NAME"):
        return [quote(name, safe="")]
    return [str(each["id"]) async for each in paged(partial(_page, http, "/v1/projects", {}))]


async def _page(
    http: HttpClient, path: str, of: dict[str, Any], cursor: str | None
) -> tuple[Sequence[Any], Any]:
    params = {**of, "limit": _PAGE, **({"cursor": cursor} if cursor else {})}
    try:
        found = await ask(http, "GET", path, params=params)
    except DestinationError as error:
        if error.status != 404 or not of:  # none of these spans is in the project
            raise
        return (), None
    return found["data"], found.get("next_cursor")


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
