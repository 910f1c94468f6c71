"""Scores in W&B Weave, as feedback on calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from otel_evals.destinations import (
    ApiDestination,
    HttpSettings,
    ScoreItem,
    SpansTo,
    cut,
    needed,
    server_url,
)
from otel_evals.errors import ConfigError
from otel_evals_exporters._internal.requests import basic, present

__all__ = ["WeaveDestination"]

_TRACES = "https://trace.wandb.ai"


class WeaveDestination(ApiDestination):
    """Sends scores to Weave as feedback on the call that Weave creates for the judged span.

    A call's id is the span's id. The id of feedback is derived from the evaluation's id, so feedback sent
    again with the same key replaces itself. The score of a conversation is feedback on its last run.
    """

    name = "weave"
    needs = ("WANDB_API_KEY", "WANDB_ENTITY", "WANDB_PROJECT")
    takes_errors = True

    def __init__(
        self,
        *,
        url: str | None = None,
        api_key: str | None = None,
        entity: str | None = None,
        project: str | None = None,
        content: bool = True,
        http: HttpSettings = None,
    ) -> None:
        """Configure the destination; no request is sent.

        Args:
            url: base URL of the trace server; by default WF_TRACE_SERVER_URL, or https://trace.wandb.ai.
            api_key: by default WANDB_API_KEY.
            entity: team or user that owns the project; by default WANDB_ENTITY.
            project: the spans' project, or `entity/project`; by default WANDB_PROJECT.
            content: whether to send explanations and error messages, which may quote the conversation.
            http: timeout, proxy, certificates and extra headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: key, entity or project is missing, or an option is wrong.
        """
        where = server_url(url, "WF_TRACE_SERVER_URL", default=_TRACES, without="/otel")
        key = needed(api_key, "api_key", "WANDB_API_KEY")
        named = needed(project, "project", "WANDB_PROJECT")
        owner, _, short = named.rpartition("/")
        owner = owner or needed(entity, "entity", "WANDB_ENTITY")
        if not short or "/" in owner:
            raise ConfigError("project", f"must be a name, or entity/project, not {named!r}")
        self._project = f"{owner}/{short}"
        super().__init__(where, basic("api", key), content=content, http=http)

    async def send(self, items: Sequence[ScoreItem]) -> None:
        for item in items:
            await self._http.send("POST", "/feedback/create", _feedback(item, self._project))

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """Return the call's page; None for a server of your own."""
        known = self._http.url == _TRACES
        return f"https://wandb.ai/{quote(self._project)}/r/call/{span_id}" if known else None

    def spans_to(self) -> SpansTo:
        return f"{self._http.url}/otel/v1/traces", {**self._http.headers, "project_id": self._project}


def _feedback(item: ScoreItem, project: str) -> dict[str, Any]:
    reason, message = item.error or (None, None)
    payload = {
        "name": item.name,
        "value": item.value,
        "label": item.label,
        "explanation": cut(item.explanation),
        "error": reason,
        "message": cut(message),
        "trace_id": item.evaluation.trace_id,
        "timestamp": item.timestamp,
        "metadata": item.metadata,
    }
    return {
        "id": item.uuid,
        "project_id": project,
        "weave_ref": f"weave:///{project}/call/{item.span_id}",
        "creator": "otel-evals",
        "feedback_type": f"otel_evals.{item.name}",
        "payload": present(payload),
    }
