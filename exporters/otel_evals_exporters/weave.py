"""Scores in W&B Weave, as feedback on calls."""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from otel_evals.destinations import (
    ApiDestination,
    Errors,
    HttpOptions,
    ScoreItem,
    base_url,
    client,
    cut,
    needed,
)
from otel_evals.errors import ConfigError

__all__ = ["WeaveDestination"]

_API, _TRACES = "https://api.wandb.ai", "https://trace.wandb.ai"
_TEXT = 10_000


class WeaveDestination(ApiDestination):
    """Sends scores to Weave as feedback on the call that it makes of the judged span.

    A call's id is the span's. Feedback has an id of its own, made of the evaluation's: sent again with the
    same key, it replaces itself. Conversations have no feedback; their score stands on the last run.
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
        http: HttpOptions | Mapping[str, Any] | None = None,
    ) -> None:
        """Name the account; nothing is sent yet.

        Args:
            url: base URL of the trace server; WF_TRACE_SERVER_URL, or that of WANDB_BASE_URL, or
                https://trace.wandb.ai, unless given.
            api_key: WANDB_API_KEY unless given.
            entity: team or user whose project it is; WANDB_ENTITY unless given.
            project: the project that the spans are in, or `entity/project`; WANDB_PROJECT unless given.
            content: whether to send explanations and error messages, which may quote the conversation.
            http: timeout, proxy, certificates and further headers: the fields of `HttpOptions`.

        Raises:
            ConfigError: key, entity or project is missing, or an option is wrong.
        """
        home = base_url(os.environ.get("WANDB_BASE_URL") or _API, "WANDB_BASE_URL")
        usual = _TRACES if home == _API else f"{home}/traces"
        where = base_url(needed(url, "url", "WF_TRACE_SERVER_URL", default=usual), "url", without="/otel")
        key = needed(api_key, "api_key", "WANDB_API_KEY")
        named = needed(project, "project", "WANDB_PROJECT")
        owner, _, short = named.rpartition("/")
        owner = owner or needed(entity, "entity", "WANDB_ENTITY")
        if not short or "/" in owner:
            raise ConfigError("project", f"must be a name, or entity/project, not {named!r}")
        self._project = f"{owner}/{short}"
        self._page = home.replace("://api.wandb.", "://wandb.") if where == usual else None
        token = base64.b64encode(f"api:{key}".encode()).decode()
        super().__init__(client(where, {"authorization": f"Basic {token}"}, key, token, http=http), content)

    async def send(self, items: Sequence[ScoreItem]) -> Errors:
        """Send one score."""
        for item in items:
            await self._http.send("POST", "/feedback/create", _feedback(item, self._project))
        return ()

    def trace_url(self, trace_id: str, span_id: str) -> str | None:
        """The call's page; None for a server of which only the API's address is known."""
        return self._page and f"{self._page}/{quote(self._project)}/r/call/{span_id}"

    def spans_to(self) -> tuple[str, Mapping[str, str]] | None:
        """Weave's OTLP address, for spans that become calls."""
        return f"{self._http.url}/otel/v1/traces", {**self._http.headers, "project_id": self._project}

    async def read(self, item: ScoreItem) -> Mapping[str, Any] | None:
        """The feedback as Weave has it."""
        same = {"$eq": [{"$getField": "id"}, {"$literal": item.uuid}]}
        # Until the server has dropped an older one of the same id, both are found.
        newest = [{"field": "created_at", "direction": "desc"}]
        body = {"project_id": self._project, "query": {"$expr": same}, "sort_by": newest, "limit": 1}
        answer = (await self._http.send("POST", "/feedback/query", body)).json()
        found = answer.get("result") if isinstance(answer, dict) else None
        return dict(found[0]) if found else None


def _feedback(item: ScoreItem, project: str) -> dict[str, Any]:
    reason, message = item.error or (None, None)
    payload = {
        "name": item.name,
        "value": item.value,
        "label": item.label,
        "explanation": cut(item.explanation, _TEXT),
        "error": reason,
        "message": cut(message, _TEXT),
        "trace_id": item.evaluation.trace_id,
        "timestamp": item.timestamp,
        "metadata": item.metadata,
    }
    return {
        "id": item.uuid,
        "project_id": project,
        "weave_ref": f"weave:///{project}/call/{item.evaluation.span_id}",
        "creator": "otel-evals",
        "feedback_type": f"otel_evals.{item.name}",
        "payload": {key: value for key, value in payload.items() if value is not None},
    }
