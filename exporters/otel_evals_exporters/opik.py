"""Scores in Opik, on traces, spans and threads."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote
from uuid import UUID

import anyio

from otel_evals.destinations import (
    TRACE_NOT_FOUND,
    ApiDestination,
    Errors,
    HttpSettings,
    ScoreItem,
    SpansTo,
    cut,
    needed,
    server_url,
)
from otel_evals.errors import DestinationError
from otel_evals.model import Run
from otel_evals_exporters._internal.requests import present

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
        http: HttpSettings = None,
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
        super().__init__(where, headers, content=content, http=http)
        self._project = needed(project, "project", "OPIK_PROJECT_NAME", default="Default Project")
        self._times: dict[str, int] = {}

    def together(self, item: ScoreItem) -> str:
        """Return the kind of the judged item: traces, spans and threads have different addresses."""
        return _THREADS if item.session else "traces" if item.whole_run else "spans"

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        kind = self.together(items[0])
        times = {} if kind == _THREADS else await self._look_up(items)
        missing = {trace: found for trace, found in times.items() if isinstance(found, DestinationError)}
        scores = [self._score(i, times) for i in items if i.evaluation.trace_id not in missing]
        if scores:
            await self._http.send("PUT", f"/v1/private/{kind}/feedback-scores", {"scores": scores})
        return [(i, missing[i.evaluation.trace_id]) for i in items if i.evaluation.trace_id in missing]

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """Return an address that redirects to the trace; None until its first score looks up its id."""
        if trace_id not in self._times:
            return None
        back = quote(base64.b64encode(f"{self._http.url}/".encode()).decode())
        found = f"trace_id={opik_id(trace_id, self._times[trace_id])}&path={back}"
        return f"{self._http.url}/v1/session/redirect/projects/?{found}"

    def spans_to(self) -> SpansTo:
        headers = {**self._http.headers, "projectname": self._project}
        return f"{self._http.url}/v1/private/otel/v1/traces", headers

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        found = (await self._look_up([item]))[item.evaluation.trace_id]
        if isinstance(found, DestinationError) or not item.whole_run:
            return None
        answer = await self._http.send(
            "GET", f"/v1/private/traces/{opik_id(item.evaluation.trace_id, found)}"
        )
        scores = answer.json().get("feedback_scores") or ()
        return next((dict(score) for score in scores if score.get("name") == item.name), None)

    def _score(self, item: ScoreItem, times: Mapping[str, Any]) -> dict[str, Any]:
        score = {"project_name": self._project, "name": item.name, "value": item.value, "source": "sdk"}
        score |= {"category_name": item.label, "reason": cut(item.explanation, _REASON)}
        if item.session is not None:
            score["thread_id"] = item.session
        else:
            judged = item.evaluation.trace_id if item.whole_run else item.span_id
            score["id"] = str(opik_id(judged, times[item.evaluation.trace_id]))
        return present(score)

    async def _look_up(self, items: Sequence[ScoreItem]) -> dict[str, int | DestinationError]:
        """Return the time in the id of each trace, or the error that it is not found yet."""
        runs = {item.evaluation.trace_id: item.run for item in items}
        times: dict[str, int | DestinationError] = {}
        limiter = anyio.CapacityLimiter(16)

        async def look_up(trace: str) -> None:
            try:
                # Each look-up may need several requests.
                async with limiter:
                    times[trace] = self._times.get(trace) or await self._started(trace, runs[trace])
            except DestinationError as error:
                times[trace] = error

        async with anyio.create_task_group() as group:
            for trace in runs:
                group.start_soon(look_up, trace)
        for trace, found in times.items():
            if not isinstance(found, DestinationError):
                self._times[trace] = found
            elif found.reason != TRACE_NOT_FOUND:
                raise found
        while len(self._times) > _REMEMBERED:
            del self._times[next(iter(self._times))]
        return times

    async def _started(self, trace: str, run: Run) -> int:
        """Return the time in a trace's id: the start of the root or another span, in milliseconds."""
        starts = [run.start_time, *(operation.span.start_time for operation in run.operations)]
        # The root first: it is usually what Opik received first.
        for started in list(dict.fromkeys(start // 1_000_000 for start in starts if start))[:_CANDIDATES]:
            try:
                await self._http.send("GET", f"/v1/private/traces/{opik_id(trace, started)}")
                return started
            except DestinationError as error:
                if error.status != 404:
                    raise
        raise DestinationError(f"no trace {trace} yet", retryable=True, reason=TRACE_NOT_FOUND, status=404)


def opik_id(hex_id: str, milliseconds: int) -> UUID:
    """Return Opik's id of a trace or span: a UUID of version 7 with a hash in place of the random bits."""
    digest = hashlib.sha256(bytes.fromhex(hex_id)).digest()[:10]
    number = int.from_bytes(milliseconds.to_bytes(6, "big") + digest, "big")
    return UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62)
