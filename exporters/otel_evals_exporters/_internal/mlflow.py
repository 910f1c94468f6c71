"""Reads traces and assessments from MLflow, which stores neither resource nor scope of a span."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from otel_evals.destinations import HttpClient
from otel_evals.model import Feedback, SpanRecord
from otel_evals.sources import LARGEST_ANSWER, FeedbackQuery, TraceQuery, ask, moment, paged, readable
from otel_evals_exporters._internal.span_records import by_trace, camel, spans_of

_TRACES = 20  # ids are part of the URL
_ASSESSED = 200


async def mlflow_feedback(
    http: HttpClient, experiment_id: str, query: FeedbackQuery
) -> AsyncIterator[Feedback | None]:
    """Yield the feedback on all traces of an experiment that began since a time."""
    began = f"timestamp_ms >= {query.since // 1_000_000}"
    async for traces in _pages(http, experiment_id, began, _ASSESSED):
        for trace in traces:
            for assessment in trace.get("assessments") or ():
                if "feedback" in assessment and assessment.get("valid", True):
                    yield readable((str(trace["trace_id"]), assessment), _feedback)


async def mlflow_traces(
    http: HttpClient, experiment_id: str, query: TraceQuery
) -> AsyncIterator[Sequence[SpanRecord]]:
    """Yield the traces of an experiment found by a filter in MLflow's own language."""
    asked = f"timestamp_ms >= {query.since // 1_000_000} AND timestamp_ms < {-(-query.until // 1_000_000)}"
    asked += f" AND {query.filter}" if query.filter else ""
    async for listed in _pages(http, experiment_id, asked, _TRACES):
        ids = [str(each["trace_id"]) for each in listed]
        path = "/api/3.0/mlflow/traces/batchGet"
        found = await ask(http, "GET", path, params={"trace_ids": ids}, most=LARGEST_ANSWER)
        for trace in found.get("traces") or ():
            scoped = [{"spans": camel(trace.get("spans") or [])}]
            for spans in by_trace(spans_of({"resourceSpans": [{"scopeSpans": scoped}]})).values():
                yield spans


def _pages(http: HttpClient, experiment_id: str, wanted: str, most: int) -> AsyncIterator[Sequence[Any]]:
    """Return the pages of a search for traces, oldest first."""

    async def page(token: str | None) -> tuple[Sequence[Sequence[Any]], Any]:
        where = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment_id}}
        body = {"locations": [where], "max_results": most, "order_by": ["timestamp_ms ASC"]}
        body |= {"filter": wanted} | ({"page_token": token} if token else {})
        found = await ask(http, "POST", "/api/3.0/mlflow/traces/search", body)
        traces = found.get("traces")
        return ([traces] if traces else []), found.get("next_page_token")

    return paged(page)


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
