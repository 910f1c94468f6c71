"""Scores in Opik, on traces, spans and threads."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

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
from otel_evals_exporters._internal.requests import present

__all__ = ["OpikDestination", "opik_id"]

_CANDIDATES = 16
_THREADS = "traces/threads"


class OpikDestination(ApiDestination):
    """Sends scores to Opik: of whole runs to their trace, of agents to spans, of conversations to threads.

    Opik computes a trace's id from the OpenTelemetry id and the start of the first span it received, so the
    destination tries the ids for each span of the run. A score overwrites an older one of the same name.
    """

    name = "opik"
    needs = ("OPIK_API_KEY", "OPIK_WORKSPACE")
    most = 100

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

    def together(self, item: ScoreItem) -> str:
        """Return the kind of the judged item, which has an address, and its trace, which is looked up."""
        kind = _kind(item)
        return kind if kind == _THREADS else f"{kind}/{item.evaluation.trace_id}"

    async def send(self, items: Sequence[ScoreItem]) -> Errors | None:
        kind = _kind(items[0])
        started = 0 if kind == _THREADS else await self._started(items[0])
        if started is None:
            problem = f"no trace {items[0].evaluation.trace_id} yet"
            error = DestinationError(problem, retryable=True, reason=TRACE_NOT_FOUND, status=404)
            return [(item, error) for item in items]
        scores = [self._score(item, started) for item in items]
        await self._http.send("PUT", f"/v1/private/{kind}/feedback-scores", {"scores": scores})
        return None

    def spans_to(self) -> SpansTo:
        headers = {**self._http.headers, "projectname": self._project}
        return f"{self._http.url}/v1/private/otel/v1/traces", headers

    def _score(self, item: ScoreItem, started: int) -> dict[str, Any]:
        score = {"project_name": self._project, "name": item.name, "value": item.value, "source": "sdk"}
        score |= {"category_name": item.label, "reason": cut(item.explanation)}
        if item.session is not None:
            score["thread_id"] = item.session
        else:
            judged = item.evaluation.trace_id if item.whole_run else item.span_id
            score["id"] = str(opik_id(judged, started))
        return present(score)

    async def _started(self, item: ScoreItem) -> int | None:
        """Return the time in the id of an item's trace, in milliseconds; None if there is no such trace yet.

        It is the start of the root or of another span.
        """
        trace, run = item.evaluation.trace_id, item.run
        starts = [run.start_time, *(operation.span.start_time for operation in run.operations)]
        # The root first: it is usually what Opik received first.
        for started in list(dict.fromkeys(start // 1_000_000 for start in starts if start))[:_CANDIDATES]:
            try:
                await self._http.send("GET", f"/v1/private/traces/{opik_id(trace, started)}")
                return started
            except DestinationError as error:
                if error.status != 404:
                    raise
        return None


def _kind(item: ScoreItem) -> str:
    return _THREADS if item.session else "traces" if item.whole_run else "spans"


def opik_id(hex_id: str, milliseconds: int) -> UUID:
    """Return Opik's id of a trace or span: a UUID of version 7 with a hash in place of the random bits."""
    digest = hashlib.sha256(bytes.fromhex(hex_id)).digest()[:10]
    number = int.from_bytes(milliseconds.to_bytes(6, "big") + digest, "big")
    return UUID(int=number & ~(0xF << 76) & ~(0x3 << 62) | 0x7 << 76 | 0x2 << 62)
