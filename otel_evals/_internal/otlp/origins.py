"""Recognises the JSON of backends: some contain OTLP, others have forms of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OTLP = frozenset(("resourceSpans", "resourceLogs", "resourceMetrics"))
_WRAPPERS = ("result", "trace")
_FROM = "fix: use `otel-evals score --from {0}=URL` to read from its API"
_ORIGINS = (
    (("traceID", "spans"), "is Jaeger's own JSON; " + _FROM.format("jaeger")),
    (("info", "data"), "is MLflow's JSON; " + _FROM.format("mlflow")),
    (("context", "span_kind"), "is Phoenix' JSON; " + _FROM.format("phoenix")),
    (("traceId", "startTime", "type"), "is Langfuse's JSON; " + _FROM.format("langfuse")),
    (("run_type", "inputs"), "has LangSmith's runs; fix: set LANGSMITH_OTEL_ENABLED=true and export OTLP"),
    (("traceId", "id"), "is Zipkin's JSON; fix: export OTLP from the application or a Collector"),
)
"""Keys of a trace or a span, and the problem; more particular forms first."""


def otlp_in(value: Any) -> Any:
    """Return the export request in a JSON value, or the list of them; None if there is none.

    Jaeger's API returns it as `result`, Tempo's as `trace` or `batches`.
    """
    if isinstance(value, list):
        return [otlp for otlp in map(_request_in, value) if otlp is not None] or None
    return _request_in(value)


def _request_in(value: Any) -> Any:
    for each in (value, *map(value.get, _WRAPPERS)) if isinstance(value, dict) else ():
        if isinstance(each, dict) and not _OTLP.isdisjoint(each):
            return each
        if isinstance(each, dict) and isinstance(each.get("batches"), list):
            return {"resourceSpans": each["batches"]}
    return None


def origin_of(value: Any) -> str | None:
    """Return what another backend's JSON is, and how to score it; None if it is unknown."""
    rows = value
    for _ in range(2):  # a list, perhaps in `data`
        if isinstance(rows, dict) and isinstance(rows.get("data"), list):
            rows = rows["data"]
        rows = rows[0] if isinstance(rows, list) and rows else rows
    if not isinstance(rows, Mapping):
        return None
    return next((problem for keys, problem in _ORIGINS if all(key in rows for key in keys)), None)
