"""Scores in MLflow and Databricks, as assessments of traces and spans."""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from otel_evals.destinations import (
    ApiDestination,
    Errors,
    HttpOptions,
    ScoreItem,
    base_url,
    client,
    iso,
    needed,
)
from otel_evals.errors import ConfigError, DestinationError
from otel_evals.model import Feedback, SpanRecord
from otel_evals.sources import FeedbackQuery, TraceQuery
from otel_evals_exporters._internal.feedback.mlflow import mlflow_feedback
from otel_evals_exporters._internal.traces.mlflow import mlflow_traces

__all__ = ["MlflowDestination"]

_SOURCES = {"LLM": "LLM_JUDGE", "CODE": "CODE"}


class MlflowDestination(ApiDestination):
    """Sends scores to MLflow as feedback: of the trace where the whole run was judged, else of the span.

    Ids are those of the evaluations: what is there already is updated. Labels stand beside their number as
    `<name>.label`, and evaluations that failed or were dropped as feedback with an error.
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
        """Name the server; nothing is sent yet.

        Args:
            url: base URL, or `databricks` for that in DATABRICKS_HOST; MLFLOW_TRACKING_URI unless given.
            token: sent as a bearer token; MLFLOW_TRACKING_TOKEN, or DATABRICKS_TOKEN, unless given. Without
                one, MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD are used.
            experiment_id: for links to traces only; MLFLOW_EXPERIMENT_ID, or 0, unless given.
            schema: `catalog.schema` of traces in Databricks' Unity Catalog.
            warehouse_id: the SQL warehouse for these.
            content: whether to send explanations and error messages, which may quote the conversation.
            http: timeout, proxy, certificates and further headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: the URL is missing, or an option is wrong.
        """
        given = needed(url, "url", "MLFLOW_TRACKING_URI")
        databricks = given == "databricks"
        given = needed(None, "url", "DATABRICKS_HOST") if databricks else given
        if (schema is None) != (warehouse_id is None):
            raise ConfigError("schema", "goes with warehouse_id: give both or none")
        environment = os.environ.get
        key = token or environment("DATABRICKS_TOKEN" if databricks else "MLFLOW_TRACKING_TOKEN")
        user, password = environment("MLFLOW_TRACKING_USERNAME"), environment("MLFLOW_TRACKING_PASSWORD")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        if not key and user and password:
            headers = {"authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}
        self._url = base_url(given, "url")
        super().__init__(client(self._url, headers, key, password, http=http), content)
        self._experiment = experiment_id or environment("MLFLOW_EXPERIMENT_ID") or "0"
        self._schema = schema
        self._params = {"sql_warehouse_id": warehouse_id} if warehouse_id else None

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send a score, and its label after it."""
        for item in items:
            error = item.error and dict(zip(("error_code", "error_message"), item.error, strict=True))
            await self._put(item, _assessment(item, "", {"error": error} if error else {"value": item.value}))
            if item.label:
                await self._put(item, _assessment(item, "label", {"value": item.label}))
        return ()

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """The trace's page in its experiment."""
        return f"{self._url}/#/experiments/{self._experiment}/traces?selectedEvaluationId=tr-{trace_id}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """MLflow's OTLP address."""
        return f"{self._url}/v1/traces", {**self._http.headers, "x-mlflow-experiment-id": self._experiment}

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        """The assessment as MLflow has it."""
        path = f"{self._path(item)}/{_id(item, '')}"
        return dict((await self._http.send("GET", path, params=self._params)).json()["assessment"])

    def read_feedback(self, query: FeedbackQuery) -> AsyncIterator[Feedback | None] | None:
        """The assessments of the experiment's traces; none of Unity Catalog's."""
        return None if self._schema else mlflow_feedback(self._http, self._experiment, query)

    def read_traces(self, query: TraceQuery) -> AsyncIterator[Sequence[SpanRecord]] | None:
        """The traces of the experiment; none of Unity Catalog's."""
        return None if self._schema else mlflow_traces(self._http, self._experiment, query)

    async def _put(self, item: ScoreItem, assessment: Mapping[str, Any]) -> None:
        path, key = self._path(item), assessment["assessment_id"]
        try:
            await self._http.send("POST", path, {"assessment": assessment}, params=self._params)
        except DestinationError as error:
            if error.status not in (409, 500):
                raise
            # An id that is taken is answered with 500, as is much else: the update tells whether it was that.
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
    assessment = {
        "assessment_id": _id(item, part),
        "assessment_name": f"{item.name}.{part}" if part else item.name,
        "feedback": feedback,
        "rationale": item.explanation,
        "source": {"source_type": _SOURCES[item.source], "source_id": f"otel-evals/{item.name}"},
        "metadata": {key: str(value) for key, value in item.metadata.items()},
        "span_id": None if item.whole_run or item.session else item.evaluation.span_id,
        "create_time": iso(item.time),
        "last_update_time": iso(item.time),
    }
    return {key: value for key, value in assessment.items() if value is not None}


def _id(item: ScoreItem, part: str) -> str:
    return f"a-{item.id}-{part}" if part else f"a-{item.id}"
