"""Assessments that people made in MLflow."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from otel_evals.destinations import HttpClient
from otel_evals.model import Feedback
from otel_evals.sources import FeedbackQuery, ask, moment, paged, readable

_PAGE = 200


async def mlflow_feedback(
    http: HttpClient, experiment_id: str, query: FeedbackQuery
) -> AsyncIterator[Feedback | None]:
    """The feedback on all traces of an experiment that began since a moment."""

    async def page(token: str | None) -> tuple[Sequence[Any], Any]:
        where = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment_id}}
        body = {"locations": [where], "max_results": _PAGE, "order_by": ["timestamp_ms ASC"]}
        body |= {"filter": f"timestamp_ms >= {query.since // 1_000_000}"}
        body |= {"page_token": token} if token else {}
        found = await ask(http, "POST", "/api/3.0/mlflow/traces/search", body)
        return list(_assessments(found.get("traces") or ())), found.get("next_page_token")

    async for trace_id, assessment in paged(page):
        if "feedback" in assessment and assessment.get("valid", True):
            yield readable((trace_id, assessment), _feedback)


def _assessments(traces: Sequence[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for trace in traces:
        for assessment in trace.get("assessments") or ():
            yield str(trace["trace_id"]), assessment


def _feedback(found: tuple[str, dict[str, Any]]) -> Feedback:
    trace_id, assessment = found
    source = assessment["source"]
    return Feedback(
        name=assessment["assessment_name"],
        value=assessment["feedback"].get("value"),
        by="person" if source["source_type"] == "HUMAN" else "judge",
        author=source.get("source_id") or "",
        time=moment(assessment.get("last_update_time") or assessment["create_time"]),
        trace_id=trace_id.removeprefix("tr-"),
        span_id=assessment.get("span_id"),
        comment=assessment.get("rationale"),
    )
