"""Scores in MLflow and Databricks, as assessments of traces and spans."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import ApiDestination, Errors, HttpOptions, ScoreItem, client, iso, needed
from otel_evals.errors import ConfigError, DestinationError
from otel_evals.model import Feedback, SpanRecord
from otel_evals.sources import FeedbackQuery, TraceQuery
from otel_evals_exporters._internal.mlflow import mlflow_feedback, mlflow_traces
from otel_evals_exporters._internal.options import basic, present, server_url

__all__ = ["MlflowDestination"]

_SOURCES = {"LLM": "LLM_JUDGE", "CODE": "CODE"}


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
        schema: str | None = None,
        warehouse_id: str | None = None,
        content: bool = True,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL, or `databricks` for DATABRICKS_HOST; by default MLFLOW_TRACKING_URI.
            token: sent as a bearer token; by default MLFLOW_TRACKING_TOKEN, or DATABRICKS_TOKEN for
                Databricks, or else MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD.
            experiment_id: the experiment of the traces; by default MLFLOW_EXPERIMENT_ID, or 0.
            schema: `catalog.schema` of traces in Databricks' Unity Catalog.
            warehouse_id: the SQL warehouse of these traces.
            content: whether to send explanations and error messages, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: the URL is missing, or an option is wrong.
        """
        given = needed(url, "url", "MLFLOW_TRACKING_URI")
        databricks = given == "databricks"
        if (schema is None) != (warehouse_id is None):
            raise ConfigError("schema", "and warehouse_id go together; fix: give both or neither")
        environment = os.environ.get
        key = token or environment("DATABRICKS_TOKEN" if databricks else "MLFLOW_TRACKING_TOKEN")
        user, password = environment("MLFLOW_TRACKING_USERNAME"), environment("MLFLOW_TRACKING_PASSWORD")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        if not key and user and password:
            headers = {"authorization": f"Basic {basic(user, password)}"}
        self._url = server_url(None if databricks else given, "DATABRICKS_HOST")
        super().__init__(client(self._url, headers, key, password, http=http), content)
        self._experiment = experiment_id or environment("MLFLOW_EXPERIMENT_ID") or "0"
        self._schema = schema
        self._params = {"sql_warehouse_id": warehouse_id} if warehouse_id else None

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        for item in items:
            error = item.error and dict(zip(("error_code", "error_message"), item.error, strict=True))
            await self._put(item, _assessment(item, "", {"error": error} if error else {"value": item.value}))
            if item.label:
                await self._put(item, _assessment(item, "label", {"value": item.label}))
        return ()

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        return f"{self._url}/#/experiments/{self._experiment}/traces?selectedEvaluationId=tr-{trace_id}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        return f"{self._url}/v1/traces", {**self._http.headers, "x-mlflow-experiment-id": self._experiment}

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        path = f"{self._path(item)}/{_id(item, '')}"
        return dict((await self._http.send("GET", path, params=self._params)).json()["assessment"])

    def read_feedback(self, query: FeedbackQuery) -> AsyncIterator[Feedback | None] | None:
        """Return the assessments of the experiment's traces; None for Unity Catalog."""
        return None if self._schema else mlflow_feedback(self._http, self._experiment, query)

    def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]] | None:
        return None if self._schema else mlflow_traces(self._http, self._experiment, query)

    async def _put(self, item: ScoreItem, assessment: Mapping[str, Any]) -> None:
        path, key = self._path(item), assessment["assessment_id"]
        try:
            await self._http.send("POST", path, {"assessment": assessment}, params=self._params)
        except DestinationError as error:
            if error.status not in (409, 500):
                raise
            # MLflow answers 500 for an existing id and for other errors; the update succeeds only for the
            # former.
            fields = {n: assessment[n] for n in ("feedback", "rationale", "metadata") if n in assessment}
            ids = {"assessment_id": key, "trace_id": f"tr-{item.evaluation.trace_id}"}
            body = {"assessment": {**ids, **fields}, "update_mask": ",".join(fields)}
            try:
                await self._http.send("PATCH", f"{path}/{key}", body, params=self._params)
            except DestinationError:
                raise error from None

    def _path(self, item: ScoreItem) -> str:
        trace = item.evaluation.trace_id
        if self._schema is not None:
            return f"/api/4.0/mlflow/traces/{self._schema}/{trace}/assessments"
        return f"/api/3.0/mlflow/traces/tr-{trace}/assessments"


def _assessment(item: ScoreItem, part: str, feedback: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        "assessment_id": _id(item, part),
        "assessment_name": f"{item.name}.{part}" if part else item.name,
        "feedback": feedback,
        "rationale": item.explanation,
        "source": {"source_type": _SOURCES[item.source], "source_id": f"otel-evals/{item.name}"},
        "metadata": {key: str(value) for key, value in item.metadata.items()},
        "span_id": None if item.whole_run or item.session else item.span_id,
        "create_time": iso(item.time),
        "last_update_time": iso(item.time),
    }
    return present(fields)


def _id(item: ScoreItem, part: str) -> str:
    return f"a-{item.id}-{part}" if part else f"a-{item.id}"
