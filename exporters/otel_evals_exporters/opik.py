"""Scores in Opik, on traces, spans and threads."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import anyio

from otel_evals.destinations import (
    TRACE_NOT_FOUND,
    ApiDestination,
    Errors,
    HttpOptions,
    ScoreItem,
    client,
    cut,
    needed,
)
from otel_evals.errors import DestinationError
from otel_evals.model import Feedback, Run
from otel_evals.sources import FeedbackQuery
from otel_evals_exporters._internal.opik import opik_feedback, opik_id
from otel_evals_exporters._internal.options import present, server_url

__all__ = ["OpikDestination", "opik_id"]

_CANDIDATES = 16
_THREADS = "traces/threads"
_REMEMBERED = _REASON = 10_000


class OpikDestination(ApiDestination):
    """Sends scores to Opik: of whole runs to their trace, of agents to spans, of conversations to threads.

    Opik computes a trace's id from the OpenTelemetry id and the start of the first span it received, so the
    destination tries the ids for each span of the run. A score overwrites an older one of the same name.
    """

    name = "opik"
    needs = ("OPIK_API_KEY", "OPIK_WORKSPACE")
    most = 100
    at_once = 4

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        workspace: str | None = None,
        project: str | None = None,
        content: bool = True,
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL; by default OPIK_URL_OVERRIDE, or https://www.comet.com/opik/api.
            api_key: by default OPIK_API_KEY; not needed for a server of your own.
            workspace: by default OPIK_WORKSPACE, or `default`.
            project: by default OPIK_PROJECT_NAME, or `Default Project`.
            content: whether to send explanations, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: the key for Comet's own server is missing, or an option is wrong.
        """
        where = server_url(url, "OPIK_URL_OVERRIDE", default="https://www.comet.com/opik/api")
        key = needed(api_key, "api_key", "OPIK_API_KEY", default=None if "comet.com" in where else "none")
        headers = {} if key == "none" else {"authorization": key}
        headers["comet-workspace"] = needed(workspace, "workspace", "OPIK_WORKSPACE", default="default")
        super().__init__(client(where, headers, key, http=http), content)
        self._project = needed(project, "project", "OPIK_PROJECT_NAME", default="Default Project")
        self._times: dict[str, int] = {}

    def together(self, item: ScoreItem) -> str:
        """Return the kind of the judged item: traces, spans and threads have different addresses."""
        return _THREADS if item.session else "traces" if item.whole_run else "spans"

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        kind = self.together(items[0])
        times, missing = await self._look_up([] if kind == _THREADS else items)
        errors = [(i, missing[i.evaluation.trace_id]) for i in items if i.evaluation.trace_id in missing]
        scores = [self._score(i, times) for i in items if i.evaluation.trace_id not in missing]
        if scores:
            await self._http.send("PUT", f"/v1/private/{kind}/feedback-scores", {"scores": scores})
        return errors

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """Return an address that redirects to the trace; None until its first score looks up its id."""
        if trace_id not in self._times:
            return None
        back = quote(base64.b64encode(f"{self._http.url}/".encode()).decode())
        found = f"trace_id={opik_id(trace_id, self._times[trace_id])}&path={back}"
        return f"{self._http.url}/v1/session/redirect/projects/?{found}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        headers = {**self._http.headers, "projectname": self._project}
        return f"{self._http.url}/v1/private/otel/v1/traces", headers

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        times, _ = await self._look_up([item])
        if not (times and item.whole_run):
            return None
        answer = await self._http.send("GET", f"/v1/private/traces/{self._score(item, times)['id']}")
        scores = answer.json().get("feedback_scores") or ()
        return next((dict(score) for score in scores if score.get("name") == item.name), None)

    def read_feedback(self, query: FeedbackQuery) -> AsyncIterator[Feedback | None]:
        return opik_feedback(self._http, self._project, query)

    def _score(self, item: ScoreItem, times: Mapping[str, int]) -> dict[str, Any]:
        score = {"project_name": self._project, "name": item.name, "value": item.value, "source": "sdk"}
        score |= {"category_name": item.label, "reason": cut(item.explanation, _REASON)}
        if item.session is not None:
            score["thread_id"] = item.session
        else:
            judged = item.evaluation.trace_id if item.whole_run else item.span_id
            score["id"] = str(opik_id(judged, times[item.evaluation.trace_id]))
        return present(score)

    async def _look_up(
        self, items: Sequence[ScoreItem]
    ) -> tuple[dict[str, int], dict[str, DestinationError]]:
        """Return the times in the ids of the items' traces, and errors for the traces not found yet."""
        runs = {item.evaluation.trace_id: item.run for item in items}
        times = {trace: self._times[trace] for trace in runs.keys() & self._times.keys()}
        errors: dict[str, DestinationError] = {}
        limiter = anyio.CapacityLimiter(16)

        async def look_up(trace: str) -> None:
            try:
                async with limiter:
                    times[trace] = await self._started(trace, runs[trace])
            except DestinationError as error:
                errors[trace] = error

        async with anyio.create_task_group() as group:
            for trace in runs.keys() - times.keys():
                group.start_soon(look_up, trace)
        if other := [error for error in errors.values() if error.reason != TRACE_NOT_FOUND]:
            raise other[0]
        self._times = (self._times if len(self._times) < _REMEMBERED else {}) | times
        return times, errors

    async def _started(self, trace: str, run: Run) -> int:
        """Return the time in a trace's id: the start of the root or another span, in milliseconds."""
        starts = [run.start_time, *(operation.span.start_time for operation in run.operations)]
        for started in list(dict.fromkeys(start // 1_000_000 for start in starts if start))[:_CANDIDATES]:
            try:
                await self._http.send("GET", f"/v1/private/traces/{opik_id(trace, started)}")
                return started
            except DestinationError as error:
                if error.status != 404:
                    raise
        raise DestinationError(f"no trace {trace} yet", retryable=True, reason=TRACE_NOT_FOUND, status=404)
