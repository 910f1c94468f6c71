"""Traces from MLflow, which keeps neither the resource nor the scope of a span."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from otel_evals.destinations import HttpClient
from otel_evals.model import SpanRecord
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask, paged
from otel_evals_exporters._internal.traces.span_records import by_trace, camel, spans_of

_PAGE = 20  # they stand in an address


async def mlflow_traces(
    http: HttpClient, experiment_id: str, query: TraceQuery
) -> AsyncIterator[Sequence[SpanRecord]]:
    """The traces of an experiment that a search finds, in MLflow's own language."""
    asked = f"timestamp_ms >= {query.since // 1_000_000} AND timestamp_ms < {-(-query.until // 1_000_000)}"
    asked += f" AND {query.filter}" if query.filter else ""

    async def page(token: str | None) -> tuple[Sequence[list[str]], Any]:
        where = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment_id}}
        body = {"locations": [where], "max_results": _PAGE, "order_by": ["timestamp_ms ASC"]}
        body |= {"filter": asked} | ({"page_token": token} if token else {})
        found = await ask(http, "POST", "/api/3.0/mlflow/traces/search", body)
        ids = [str(each["trace_id"]) for each in found.get("traces") or ()]
        return ([ids] if ids else []), found.get("next_page_token")

    async for ids in paged(page):
        path = "/api/3.0/mlflow/traces/batchGet"
        found = await ask(http, "GET", path, params={"trace_ids": ids}, most=LARGEST_ANSWER)
        for trace in found.get("traces") or ():
            scoped = [{"spans": camel(trace.get("spans") or [])}]
            for spans in by_trace(spans_of({"resourceSpans": [{"scopeSpans": scoped}]})).values():
                yield spans
