"""Reads feedback back from LangSmith."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Literal
from uuid import UUID

from otel_evals.destinations import HttpClient
from otel_evals.model import Feedback
from otel_evals.sources import FeedbackQuery, ask, moment, paged, readable

_BY: dict[str, Literal["person", "api"]] = {"app": "person", "api": "api"}
_PAGE = 100


async def langsmith_feedback(
    http: HttpClient, session: str, query: FeedbackQuery
) -> AsyncIterator[Feedback | None]:
    """Yield all feedback of a project since a time. Runs are identified by span id only."""

    async def page(offset: int) -> tuple[Sequence[Any], Any]:
        params: dict[str, Any] = {"session": session, "limit": _PAGE, "offset": offset}
        params |= {"min_created_at": query.since_text} | ({"key": list(query.names)} if query.names else {})
        found = await ask(http, "GET", "/api/v1/feedback", params=params)
        if not isinstance(found, list):
            raise TypeError("not a list")
        return found, offset + _PAGE if len(found) >= _PAGE else None

    async for item in paged(page, 0):
        yield readable(item, _feedback)


def _feedback(item: dict[str, Any]) -> Feedback:
    source = item.get("feedback_source") or {}
    ours = "evaluation_id" in (source.get("metadata") or {})
    span = UUID(item["run_id"]).int
    return Feedback(
        name=item["key"],
        value=item["value"] if item.get("score") is None else item["score"],
        by="judge" if ours else _BY.get(source.get("type", ""), "judge"),
        author=str(source.get("user_name") or source.get("user_id") or ""),
        time=moment(item.get("modified_at") or item["created_at"]),
        # Runs from other sources than OpenTelemetry have a whole UUID, which matches no span.
        span_id=f"{span:016x}",
        comment=item.get("comment"),
    )
