"""Scores that people gave in Langfuse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal

from otel_evals.destinations import HttpClient
from otel_evals.errors import DestinationError
from otel_evals.model import Feedback
from otel_evals.sources import FeedbackQuery, ask, moment, paged, readable

_BY: dict[str, Literal["person", "api"]] = {"ANNOTATION": "person", "API": "api"}
_PAGE = 100


async def langfuse_feedback(http: HttpClient, query: FeedbackQuery) -> AsyncIterator[Feedback | None]:
    """All scores since a moment; servers without the newest list are asked for the one before it."""
    names = {"name": ",".join(query.names)} if query.names else {}

    async def newest(cursor: str | None) -> tuple[Sequence[Any], Any]:
        params = {"limit": _PAGE, "fields": "details,subject,annotation", **names}
        params |= {"fromTimestamp": query.since_text} | ({"cursor": cursor} if cursor else {})
        found = await ask(http, "GET", "/api/public/v3/scores", params=params)
        return found["data"], found["meta"].get("cursor")

    async def numbered(page: int) -> tuple[Sequence[Any], Any]:
        params = {"limit": _PAGE, "page": page, "fromTimestamp": query.since_text}
        found = await ask(http, "GET", "/api/public/v2/scores", params=params)
        return found["data"], page + 1 if page < int(found["meta"]["totalPages"]) else None

    try:
        async for score in paged(newest):
            yield readable(score, _feedback)
    except DestinationError as error:
        if error.status != 404:
            raise
        async for score in paged(numbered, 1):
            yield readable(score, _feedback)


def _feedback(score: dict[str, Any]) -> Feedback:
    subject = score.get("subject") or {}
    kind, of = subject.get("kind"), subject.get("id")
    ours = "evaluation_id" in (score.get("metadata") or {})
    return Feedback(
        name=score["name"],
        value=_value(score),
        by="judge" if ours else _BY.get(score["source"], "judge"),
        author=score.get("authorUserId") or "",
        time=moment(score.get("updatedAt") or score["timestamp"]),
        trace_id=of if kind == "trace" else subject.get("traceId") or score.get("traceId"),
        span_id=of if kind == "observation" else score.get("observationId"),
        comment=score.get("comment"),
    )


def _value(score: dict[str, Any]) -> Any:
    value, kind = score.get("value"), score.get("dataType")
    if kind == "BOOLEAN":
        return bool(value)
    # The older list gives categories a number too, and their name beside it.
    return score.get("stringValue") or value if kind == "CATEGORICAL" else value
