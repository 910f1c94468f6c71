"""Scores in MLflow and Databricks as assessments of traces and spans, and both read back.

MLflow stores neither resource nor scope of a span.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import (
    ApiDestination,
    HttpSettings,
    ScoreItem,
    SpansTo,
    iso,
    needed,
    server_url,
)
from otel_evals.errors import DestinationError
from otel_evals.model import SpanRecord
from otel_evals.sources import LARGEST_ANSWER, TraceQuery, ask, paged
from otel_evals_exporters._internal.requests import basic, bearer, present
from otel_evals_exporters._internal.span_records import by_trace, spans_in

__all__ = ["MlflowDestination"]

_SOURCES = {"LLM": "LLM_JUDGE", "CODE": "CODE"}
_TRACES = 20  # ids are part of the URL
_FOUND = 200


class MlflowDestination(ApiDestination):
    """Sends scores to MLflow as feedback: on the trace if the whole run was judged, otherwise on the span.

    Feedback has the evaluation's id, so a score sent again is updated. A label is separate feedback called
    `<name>.label`; a failed or dropped evaluation is feedback with an error.
    """

    name = "mlflow"
    needs = ("MLFLOW_TRACKING_URI",)
    takes_errors = True
    finds_traces = True

    def __init__(
        self,
        *,
        url: str | None = None,
        token: str | None = None,
        experiment_id: str | None = None,
        content: bool = True,
        http: HttpSettings = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL, or `databricks` for DATABRICKS_HOST; by default MLFLOW_TRACKING_URI.
            token: sent as a bearer token; by default MLFLOW_TRACKING_TOKEN, or DATABRICKS_TOKEN for
                Databricks, or else MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
            experiment_id: the experiment of the traces; by default MLFLOW_EXPERIMENT_ID, or 0.
            content: whether to send explanations and error messages, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: the URL is missing, or an option is wrong.
        """
        given = needed(url, "url", "MLFLOW_TRACKING_URI")
        databricks = given == "databricks"
        environment = os.environ.get
        headers = bearer(token or environment("DATABRICKS_TOKEN" if databricks else "MLFLOW_TRACKING_TOKEN"))
        user, password = environment("MLFLOW_TRACKING_USERNAME"), environment("MLFLOW_TRACKING_PASSWORD")
        if not headers and user and password:
            headers = basic(user, password)
        where = server_url(None if databricks else given, "DATABRICKS_HOST")
        super().__init__(where, headers, content=content, http=http)
        self._experiment = experiment_id or environment("MLFLOW_EXPERIMENT_ID") or "0"

    async def send(self, items: Sequence[ScoreItem]) -> None:
        for item in items:
            error = item.error and dict(zip(("error_code", "error_message"), item.error, strict=True))
            feedback = {"error": error} if error else {"value": item.value}
            await self._put(item, _assessment(item, f"a-{item.id}", item.name, feedback))
            if item.label:
                named = f"a-{item.id}-label", f"{item.name}.label"
                await self._put(item, _assessment(item, *named, {"value": item.label}))

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        page = f"{self._http.url}/#/experiments/{self._experiment}/traces"
        return f"{page}?selectedEvaluationId=tr-{trace_id}"

    def spans_to(self) -> SpansTo:
        headers = {**self._http.headers, "x-mlflow-experiment-id": self._experiment}
        return f"{self._http.url}/v1/traces", headers

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        found = await self._http.send("GET", f"{_path(item)}/a-{item.id}")
        return dict(found.json()["assessment"])

    async def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]]:
        """Yield the traces of the experiment found by a filter in MLflow's own language."""
        asked = (
            f"timestamp_ms >= {query.since // 1_000_000} AND timestamp_ms < {-(-query.until // 1_000_000)}"
        )
        asked += f" AND {query.filter}" if query.filter else ""
        ids = [str(each["trace_id"]) async for each in self._found(asked)]
        for start in range(0, len(ids), _TRACES):
            params = {"trace_ids": ids[start : start + _TRACES]}
            path = "/api/3.0/mlflow/traces/batchGet"
            found = await ask(self._http, "GET", path, params=params, most=LARGEST_ANSWER)
            for trace in found.get("traces") or ():
                for spans in by_trace(spans_in(trace.get("spans") or [])):
                    yield spans

    def _found(self, wanted: str) -> AsyncIterator[Any]:
        """Return the results of a search for traces, oldest first."""

        async def page(token: str | None) -> tuple[Sequence[Any], Any]:
            where = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": self._experiment}}
            body = {"locations": [where], "max_results": _FOUND, "order_by": ["timestamp_ms ASC"]}
            body |= present({"filter": wanted, "page_token": token})
            found = await ask(self._http, "POST", "/api/3.0/mlflow/traces/search", body)
            return found.get("traces") or (), found.get("next_page_token")

        return paged(page)

    async def _put(self, item: ScoreItem, assessment: Mapping[str, Any]) -> None:
        path = _path(item)
        try:
            await self._http.send("POST", path, {"assessment": assessment})
        except DestinationError as error:
            if error.status not in (409, 500):
                raise
            # MLflow answers 500 for an existing id and for other errors; the update succeeds only for the
            # former.
            key = assessment["assessment_id"]
            fields = {n: assessment[n] for n in ("feedback", "rationale", "metadata") if n in assessment}
            ids = {"assessment_id": key, "trace_id": f"tr-{item.evaluation.trace_id}"}
            body = {"assessment": {**ids, **fields}, "update_mask": ",".join(fields)}
            try:
                await self._http.send("PATCH", f"{path}/{key}", body)
            except DestinationError:
                raise error from None


def _path(item: ScoreItem) -> str:
    return f"/api/3.0/mlflow/traces/tr-{item.evaluation.trace_id}/assessments"


def _assessment(item: ScoreItem, id: str, name: str, feedback: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        "assessment_id": id,
        "assessment_name": name,
        "feedback": feedback,
        "rationale": item.explanation,
        "source": {"source_type": _SOURCES[item.source], "source_id": f"otel-evals/{item.name}"},
        "metadata": {key: str(value) for key, value in item.metadata.items()},
        "span_id": None if item.whole_run or item.session else item.span_id,
        "create_time": iso(item.time),
        "last_update_time": iso(item.time),
    }
    return present(fields)
