"""Scores in LangSmith, as feedback on runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from otel_evals.destinations import (
    ApiDestination,
    HttpSettings,
    ScoreItem,
    SpansTo,
    cut,
    iso,
    needed,
    server_url,
)
from otel_evals.errors import DestinationError
from otel_evals_exporters._internal.requests import present

__all__ = ["LangsmithDestination"]

_DECIMALS = 4  # more are refused


class LangsmithDestination(ApiDestination):
    """Sends scores to LangSmith as feedback on the run that LangSmith creates for the judged span.

    A run's id is the span's id, padded with zeros. The id of feedback is derived from the evaluation's id, so
    feedback sent again overwrites itself. The score of a conversation is feedback on its last run.
    """

    name = "langsmith"
    needs = ("LANGSMITH_API_KEY", "LANGSMITH_PROJECT")
    takes_errors = True
    finds_traces = True

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        project: str | None = None,
        workspace_id: str | None = None,
        content: bool = True,
        http: HttpSettings = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL; by default LANGSMITH_ENDPOINT, or https://api.smith.langchain.com.
            api_key: by default LANGSMITH_API_KEY or LANGCHAIN_API_KEY.
            project: name of the spans' project; by default LANGSMITH_PROJECT, or `default`.
            workspace_id: needed for a key of several workspaces.
            content: whether to send explanations and error messages, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: the key is missing, or an option is wrong.
        """
        default = "https://api.smith.langchain.com"
        key = needed(api_key, "api_key", "LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
        where = server_url(url, "LANGSMITH_ENDPOINT", default=default, without="/otel|/api/v1")
        headers = {"x-api-key": key, **({"x-tenant-id": workspace_id} if workspace_id else {})}
        super().__init__(where, headers, content=content, http=http)
        self._project = needed(project, "project", "LANGSMITH_PROJECT", default="default")
        self._session: str | None = None

    async def send(self, items: Sequence[ScoreItem]) -> None:
        session = await self._session_id()
        for item in items:
            await self._http.send("POST", "/api/v1/feedback", _feedback(item, session))

    def spans_to(self) -> SpansTo:
        return f"{self._http.url}/otel/v1/traces", {**self._http.headers, "langsmith-project": self._project}

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        return dict((await self._http.send("GET", f"/api/v1/feedback/{item.uuid}")).json())

    async def _session_id(self) -> str:
        # Feedback needs the project's id, and only its name is configured.
        if self._session is None:
            answer = await self._http.send("GET", "/api/v1/sessions", params={"name": self._project})
            found = answer.json()
            first = found[0] if isinstance(found, list) and found else {}
            if not first.get("id"):
                problem = f"there is no project {self._project!r} yet"
                raise DestinationError(problem, retryable=True, reason="trace_not_found", status=404)
            self._session = str(first["id"])
        return self._session


def _feedback(item: ScoreItem, session: str) -> dict[str, Any]:
    comment = item.error[1] if item.error else item.explanation
    fields = {
        "id": item.uuid,
        "run_id": str(UUID(int=int(item.span_id, 16))),
        "session_id": session,
        "start_time": iso(item.run.start_time) if item.run.start_time else None,
        "key": item.name,
        "score": None if item.value is None else round(item.value, _DECIMALS),
        "value": item.error[0] if item.error else item.label,
        "comment": cut(comment),
        "error": True if item.error else None,
        "feedback_source": {
            "type": "model" if item.source == "LLM" else "api",
            "metadata": item.metadata,
        },
        "created_at": item.timestamp,
        "modified_at": item.timestamp,
        "extend_trace_retention": False,  # LangSmith charges for it
    }
    return present(fields)
